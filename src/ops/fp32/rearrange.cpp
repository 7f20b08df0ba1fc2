// Pad, channel shuffle, reversal, concat and slice in fp32.
#include <algorithm>

#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/image_shape.h"
#include "ops/shapes/joined_axis.h"
#include "ops/shapes/sliced_row.h"

namespace mantissa::ops::fp32 {
namespace {

// Calls visit(outer, inner) for each element of the image inside: its place in the padded image,
// and its own.
template <typename Visit>
void for_each_inside(const OpContext& c, const Shape& outer_shape, const Shape& inner_shape,
                     Visit&& visit) {
  const Shape outer = as_images(outer_shape), inner = as_images(inner_shape);
  const int64_t top = c.attributes<PadAttributes>().top, left = c.attributes<PadAttributes>().left;
  const int64_t row = inner[2] * inner[3];
  for_images(c, inner[0], [&](int64_t n) {
    for (int64_t i = 0; i < inner[1] * row; ++i) {
      const int64_t y = n * outer[1] + i / row + top;
      visit((y * outer[2] + left) * outer[3] + i % row, n * inner[1] * row + i);
    }
  });
}

void pad(const OpContext& c) {
  const auto* in = c.inputs[0].as<float>();
  auto* out = c.output().as<float>();
  for_each(c, c.output().count(), [&](int64_t i) { out[i] = 0; });
  for_each_inside(c, c.output().shape, c.inputs[0].shape,
                  [&](int64_t outer, int64_t inner) { out[outer] = in[inner]; });
}

void pad_backward(const OpContext& c) {
  const auto* from = c.grad_output().as<float>();
  auto* to = c.grad_inputs[0].as<float>();
  for_each_inside(c, c.grad_output().shape, c.grad_inputs[0].shape,
                  [&](int64_t outer, int64_t inner) { to[inner] = from[outer]; });
}

// The destination of channel i * size + j, of `groups` groups of `size`: j * groups + i.
struct Shuffled {
  int64_t channels, groups, size;
  explicit Shuffled(const OpContext& c, const Shape& shape)
      : channels(shape.last()),
        groups(c.attributes<ShuffleAttributes>().groups),
        size(channels / groups) {}
  int64_t operator()(int64_t at) const {
    const int64_t channel = at % channels;
    return at - channel + channel % size * groups + channel / size;
  }
};

void shuffle(const OpContext& c) {
  const Shuffled shuffled(c, c.output().shape);
  const auto* in = c.inputs[0].as<float>();
  auto* out = c.output().as<float>();
  for_each(c, c.output().count(), [&](int64_t i) { out[shuffled(i)] = in[i]; });
}

void shuffle_backward(const OpContext& c) {
  const Shuffled shuffled(c, c.grad_output().shape);
  const auto* from = c.grad_output().as<float>();
  auto* to = c.grad_inputs[0].as<float>();
  for_each(c, c.grad_inputs[0].count(), [&](int64_t i) { to[i] = from[shuffled(i)]; });
}

void reverse(const OpContext& c, const Tensor& from, const Tensor& to) {
  const int64_t channels = to.shape.last(), positions = to.shape[to.shape.rank - 2];
  for_images(c, to.count() / channels, [&](int64_t row) {
    const int64_t other = row - 2 * (row % positions) + positions - 1;
    std::copy_n(from.as<float>() + other * channels, channels, to.as<float>() + row * channels);
  });
}

void reverse_forward(const OpContext& c) { reverse(c, c.inputs[0], c.output()); }
void reverse_backward(const OpContext& c) { reverse(c, c.grad_output(), c.grad_inputs[0]); }

// Calls copy(slice, whole, size) for each row of each slice of `whole`, with its place in the
// slice and its place in the whole. A row has all elements from the joined axis on.
template <int kDims, typename Copy>
void for_each_slice(const OpContext& c, std::span<const Tensor> slices, const Shape& whole,
                    Copy&& copy) {
  int64_t first = 0;
  const int64_t whole_size = row_size<kDims>(whole);
  for (const Tensor& slice : slices) {
    const int64_t size = row_size<kDims>(slice.shape), rows = whole.count() / whole_size;
    if (!slice.empty()) {
      for_images(c, rows, [&](int64_t row) {
        copy(slice.as<float>() + row * size, row * whole_size + first, size);
      });
    }
    first += size;
  }
}

template <int kDims>
void concat(const OpContext& c) {
  for_each_slice<kDims>(c, c.inputs, c.output().shape,
                        [&](const float* slice, int64_t whole, int64_t size) {
                          std::copy_n(slice, size, c.output().as<float>() + whole);
                        });
}

template <int kDims>
void concat_backward(const OpContext& c) {
  for_each_slice<kDims>(c, c.grad_inputs, c.grad_output().shape,
                        [&](float* slice, int64_t whole, int64_t size) {
                          std::copy_n(c.grad_output().as<float>() + whole, size, slice);
                        });
}

template <int kDims>
constexpr OpRows concat_rows() {
  return {.forward = {.run = concat<kDims>},
          .grad_input = {.run = concat_backward<kDims>},
          .kernel = loops_name};
}

// Calls copy(whole, slice) for each row: the slice's place in the whole, and its own row.
template <typename Copy>
void for_each_part(const OpContext& c, const Tensor& whole, const Tensor& slice, Copy&& copy) {
  const SlicedRow sliced = sliced_row(c.attributes<SliceAttributes>(), whole.shape);
  const int64_t channels = slice.shape.last();
  for_images(c, whole.count() / sliced.size, [&](int64_t row) {
    copy(whole.as<float>() + row * sliced.size + sliced.first, slice.as<float>() + row * channels);
  });
}

void slice(const OpContext& c) {
  const int64_t channels = c.output().shape.last();
  for_each_part(c, c.inputs[0], c.output(),
                [&](const float* from, float* to) { std::copy_n(from, channels, to); });
}

void slice_backward(const OpContext& c) {
  auto* all = c.grad_inputs[0].as<float>();
  for_each(c, c.grad_inputs[0].count(), [&](int64_t i) { all[i] = 0; });
  const int64_t channels = c.grad_output().shape.last();
  for_each_part(c, c.grad_inputs[0], c.grad_output(),
                [&](float* to, const float* from) { std::copy_n(from, channels, to); });
}

}  // namespace

const OpRows kPad = {
    .forward = {.run = pad}, .grad_input = {.run = pad_backward}, .kernel = loops_name};
const OpRows kChannelShuffle = {
    .forward = {.run = shuffle}, .grad_input = {.run = shuffle_backward}, .kernel = loops_name};
const OpRows kReverse = {.forward = {.run = reverse_forward},
                         .grad_input = {.run = reverse_backward},
                         .kernel = loops_name};
const OpRows kConcat = concat_rows<kOfChannels>();
const OpRows kConcatPositions = concat_rows<kOfPositions>();
const OpRows kSlice = {
    .forward = {.run = slice}, .grad_input = {.run = slice_backward}, .kernel = loops_name};

}  // namespace mantissa::ops::fp32
