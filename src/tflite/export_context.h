// The state of an export, and the functions that write operators.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tflite/exporter.h"

namespace mantissa::tflite {

// A value of the network in the model: int8, mantissa + zero. Zero is chosen so that int8's own
// range clips values at `most`.
struct Exported {
  int tensor = -1;
  int exponent = 0;
  int zero = 0;
  bool is_signed = true;
};

struct ExportContext {
  const ExportedNetwork& network;
  const Graph& graph;
  std::vector<std::optional<Exported>> values;  // by value
  ModelData model;

  const Node& node(int n) const { return graph.nodes[static_cast<size_t>(n)]; }
  const Exported& input(const Node& node, size_t i = 0) const {
    return *values[static_cast<size_t>(node.inputs[i])];
  }
  const Shape& shape(int value) const { return graph.values[static_cast<size_t>(value)].shape; }
  int exponent(int value) const {
    return network.exponents[static_cast<size_t>(network.canonical[static_cast<size_t>(value)])];
  }
  template <typename T>
  std::span<const T> numbers(int parameter) const {
    const auto bytes = network.parameters[static_cast<size_t>(parameter)];
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  int add(TensorData tensor);
  // An int8 tensor of a value, for one example, with the exponent and zero of `as`.
  int add_value(const std::string& name, const Shape& shape, const Exported& as);
  int add_whole_numbers(const std::string& name, std::vector<int32_t> dims,
                        const std::vector<int32_t>& numbers);
};

using ExportFunction = Result<Exported> (*)(ExportContext&, int node);

Result<Exported> export_pixels(ExportContext& context, int n);
Result<Exported> export_convolution(ExportContext& context, int n);
Result<Exported> export_linear(ExportContext& context, int n);
Result<Exported> export_add(ExportContext& context, int n);
Result<Exported> export_max_pool(ExportContext& context, int n);
Result<Exported> export_relu(ExportContext& context, int n);
Result<Exported> export_concat(ExportContext& context, int n);
Result<Exported> export_reshape(ExportContext& context, int n);
Result<Exported> export_pad(ExportContext& context, int n);
Result<Exported> export_nothing(ExportContext& context, int n);

// The value that a node makes, whose mantissas a ReLU clips at `most`; 127: int8 does.
Exported made_value(const ExportContext& context, const Node& node, bool is_signed, int most);

// The activation of a layer or a sum.
Activation activation_of(bool is_signed);

// Rows of windows along both axes.
struct WindowAxis {
  int64_t window, stride, padding, in, out;
};
// How a model pads: as TensorFlow Lite's SAME, or by cells around the image, then VALID.
struct WindowPadding {
  bool is_same = false;
  int32_t top = 0, bottom = 0, left = 0, right = 0;
  bool pads() const { return top + bottom + left + right > 0; }
};
WindowPadding window_padding(const WindowAxis& vertical, const WindowAxis& horizontal);

// Adds zeros around an image; returns the tensor.
int add_padding(ExportContext& context, const std::string& name, const Exported& image,
                const Shape& shape, const WindowPadding& padding);

}  // namespace mantissa::tflite
