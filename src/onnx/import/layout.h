// How a value's dimensions in ONNX ([C, H, W], without the batch) lie in ours ([H, W, C]).
//
// Both are products of the same atoms. A transposition reorders dimensions and a reshape cuts them
// at other places; neither moves a number. So most nodes that exporters put around a network
// vanish. The rest follow from comparing the two orders.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mantissa::onnx {

class Layout {
 public:
  Layout() = default;
  // [C, H, W] that lies as [H, W, C].
  static Layout image(int64_t height, int64_t width, int64_t channels);
  // [C, D, H, W] that lies as [D, H, W, C].
  static Layout volume(int64_t depth, int64_t height, int64_t width, int64_t channels);
  // [H, W, C] that lies so.
  static Layout channels_last(int64_t height, int64_t width, int64_t channels);
  static Layout vector(int64_t count);
  // Dimensions that lie as they are.
  static Layout of(std::span<const int64_t> dims);

  std::vector<int64_t> dims() const;
  int64_t count() const;

  // Other dimensions for the same elements in ONNX's order. False if atoms cannot be cut so.
  bool reshape(std::span<const int64_t> dims);
  void transpose(std::span<const int> order);

  // Another innermost dimension, the last one.
  void append(int64_t size);
  // Gives the last dimension another size. False unless it is the innermost `size_now` elements.
  bool resize_last(int64_t size_now, int64_t size);
  // Gives a dimension a smaller size. False if its elements do not lie together.
  bool narrow(size_t dim, int64_t size);
  // Gives a dimension another size, which must be the outermost of the innermost `channels`
  // elements. False if it is not.
  bool widen(size_t dim, int64_t size, int64_t channels);
  // The distance between neighbouring elements of a dimension, in elements.
  int64_t step_of(size_t dim) const;

  // Whether the elements lie as if these dimensions followed each other, the first outermost.
  bool lies_as(std::span<const int> order) const;
  // Whether this holds for all dimensions except the last, whose elements lie as a matrix of
  // `groups` rows that ONNX has transposed. Returns the number of rows.
  std::optional<int64_t> shuffle_of_last(std::span<const int> order) const;
  // The place of each element, in ONNX's order. Empty: all lie in that order.
  std::vector<int64_t> places() const;

  bool operator==(const Layout& other) const;

 private:
  std::vector<int> atoms_of(std::span<const int> order) const;
  int64_t size_of(std::span<const int> atoms) const;
  void split(int atom, int64_t outer);
  // Atoms that follow each other in both orders as one.
  Layout merged() const;

  std::vector<int64_t> sizes_;          // of atoms, more than 1 each
  std::vector<std::vector<int>> dims_;  // atoms of each dimension, the outermost first
  std::vector<int> stored_;             // all atoms, the outermost first
};

}  // namespace mantissa::onnx
