// Operators that move elements and compute nothing: padding, reshape, channel shuffle, reversal.
// Mantissas and exponents pass on, gradients likewise.
#include <algorithm>
#include <cstring>

#include "kernels/common/mantissa_span.h"
#include "kernels/common/parallel_ranges.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/image_shape.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kLargestSide = 1 << 20;

constexpr AttributeSpec kPadSchema[] = {whole<&PadAttributes::top>("top", 0, 0, kLargestSide),
                                        whole<&PadAttributes::bottom>("bottom", 0, 0, kLargestSide),
                                        whole<&PadAttributes::left>("left", 0, 0, kLargestSide),
                                        whole<&PadAttributes::right>("right", 0, 0, kLargestSide)};
// [channels]; with a width [width, channels]; with a height, too, [height, width, channels]; with a
// depth, too, [depth, height, width, channels].
constexpr AttributeSpec kReshapeSchema[] = {
    whole<&ReshapeAttributes::depth>("depth", 0, 0, INT64_MAX),
    whole<&ReshapeAttributes::height>("height", 0, 0, INT64_MAX),
    whole<&ReshapeAttributes::width>("width", 0, 0, INT64_MAX),
    required_whole<&ReshapeAttributes::channels>("channels", 1, INT64_MAX)};
constexpr AttributeSpec kShuffleSchema[] = {
    whole<&ShuffleAttributes::groups>("groups", 1, 1, INT64_MAX)};

Result<Shape> infer_pad(const Attributes& given, std::span<const Shape> inputs) {
  const auto& p = given.as<PadAttributes>();
  if (inputs.size() != 1 || !is_of_images(inputs[0]) || is_sequence(inputs[0])) {
    return invalid_input("wants one [H, W, C] or [D, H, W, C] input");
  }
  const Shape image = as_image(inputs[0]);
  return like_input(Shape{image[0] + p.top + p.bottom, image[1] + p.left + p.right, image[2]},
                    inputs[0]);
}

// Calls row(outer, inner) for each row of the padded images: `outer` is its first byte, `inner` the
// first byte of the row of the image inside, or -1 if all of it is padding.
template <typename Row>
void for_each_row(ThreadPool& pool, const Shape& outer, const Shape& inner, int64_t top,
                  int64_t bytes, const Row& row) {
  const int64_t outer_bytes = outer[2] * outer[3] * bytes;
  const int64_t inner_bytes = inner[2] * inner[3] * bytes;
  kernels::parallel_ranges(
      pool, outer[0] * outer[1], std::max<int64_t>(1, kernels::kBytesPerThread / outer_bytes),
      [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t y = i % outer[1] - top;
          const bool inside = y >= 0 && y < inner[1];
          row(i * outer_bytes, inside ? (i / outer[1] * inner[1] + y) * inner_bytes : -1);
        }
      });
}

void pad_forward(const OpContext& c) {
  const Tensor &in = c.inputs[0], &out = c.output();
  const auto& p = c.attributes<PadAttributes>();
  const Shape images = as_images(in.shape);
  const int64_t bytes = element_bytes(in.type);
  const int64_t channels = images[3] * bytes, width = images[2] * channels;
  const int64_t left = p.left * channels, right = p.right * channels;
  for_each_row(*c.kernel.pool, as_images(out.shape), images, p.top, bytes, [&](int64_t to, int64_t from) {
    auto* row = out.as<std::byte>() + to;
    if (from < 0) {
      std::memset(row, 0, static_cast<size_t>(left + width + right));
      return;
    }
    std::memset(row, 0, static_cast<size_t>(left));
    std::memcpy(row + left, in.as<std::byte>() + from, static_cast<size_t>(width));
    std::memset(row + left + width, 0, static_cast<size_t>(right));
  });
  *out.exponent = *in.exponent;
}

void pad_backward(const OpContext& c) {
  const Tensor &grad_input = c.grad_inputs[0], &grad_output = c.grad_output();
  const auto& p = c.attributes<PadAttributes>();
  const Shape images = as_images(grad_input.shape);
  const int64_t bytes = element_bytes(grad_input.type);
  const int64_t channels = images[3] * bytes, width = images[2] * channels;
  for_each_row(*c.kernel.pool, as_images(grad_output.shape), images, p.top, bytes,
               [&](int64_t from, int64_t to) {
                 if (to < 0) return;
                 std::memcpy(grad_input.as<std::byte>() + to,
                             grad_output.as<std::byte>() + from + p.left * channels,
                             static_cast<size_t>(width));
               });
  *grad_input.exponent = *grad_output.exponent;
}

Result<Shape> infer_reshape(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<ReshapeAttributes>();
  if (inputs.size() != 1) return invalid_input("wants one input");
  const int64_t height = attributes.height, width = attributes.width;
  const int64_t channels = attributes.channels;
  const Shape shape = attributes.depth > 0 ? Shape{attributes.depth, height, width, channels}
                      : height > 0         ? Shape{height, width, channels}
                      : width > 0 ? Shape{width, channels}
                                  : Shape{channels};
  const int64_t count = inputs[0].count();
  for (int axis = 0; axis < shape.rank; ++axis) {
    if (shape[axis] < 1 || shape[axis] > count) {
      return invalid_input("wants channels, or width and channels, or height too, or depth, of " +
                           std::to_string(count) + " elements in all");
    }
  }
  if (element_count(shape) == count) return shape;
  return invalid_input("cannot make " + to_string(shape) + " of " + to_string(inputs[0]));
}

Result<Shape> infer_shuffle(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<ShuffleAttributes>();
  if (inputs.size() != 1) return invalid_input("wants one input");
  const int64_t groups = attributes.groups, channels = inputs[0].last();
  if (channels % groups != 0) {
    return invalid_input("wants groups that divide " + std::to_string(channels) + " channels");
  }
  return inputs[0];
}

// to[j * groups + i] = from[i * size + j] for each row of groups * size channels.
template <typename T>
void shuffle(ThreadPool& pool, const T* from, T* to, int64_t count, int64_t groups, int64_t size) {
  const int64_t channels = groups * size;
  kernels::parallel_ranges(pool, count / channels,
                           std::max<int64_t>(1, kernels::kBytesPerThread / channels),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t row = begin; row < end; ++row) {
                               const T* in = from + row * channels;
                               T* out = to + row * channels;
                               for (int64_t j = 0; j < size; ++j) {
                                 for (int64_t i = 0; i < groups; ++i)
                                   out[j * groups + i] = in[i * size + j];
                               }
                             }
                           });
}

void shuffle_forward(const OpContext& c) {
  const int64_t groups = c.attributes<ShuffleAttributes>().groups;
  kernels::with_value_type(c.output().bits, [&](auto type) {
    using T = decltype(type);
    shuffle(*c.kernel.pool, c.inputs[0].as<T>(), c.output().as<T>(), c.output().count(), groups,
            c.output().shape.last() / groups);
  });
  *c.output().exponent = *c.inputs[0].exponent;
}

// The inverse is the shuffle with as many groups as a group had channels.
void shuffle_backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const int64_t groups = c.attributes<ShuffleAttributes>().groups;
  const int64_t size = grad_input.shape.last() / groups;
  const auto back = [&](auto type) {
    using T = decltype(type);
    shuffle(*c.kernel.pool, c.grad_output().as<T>(), grad_input.as<T>(), grad_input.count(), size,
            groups);
  };
  kernels::with_wide_gradient_type(grad_input.bits, back);
  *grad_input.exponent = *c.grad_output().exponent;
}

Result<Shape> infer_reverse(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() == 1 && inputs[0].rank >= 2) return inputs[0];
  return invalid_input("wants one [..., positions, C] input");
}

// Each sequence's rows in the opposite order; done twice it changes nothing.
void reverse(ThreadPool& pool, const Tensor& from, const Tensor& to) {
  const int64_t positions = to.shape[to.shape.rank - 2];
  const int64_t bytes = to.shape.last() * element_bytes(to.type);
  kernels::parallel_ranges(
      pool, to.count() / to.shape.last(), std::max<int64_t>(1, kernels::kBytesPerThread / bytes),
      [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t other = row - 2 * (row % positions) + positions - 1;
          std::memcpy(to.as<std::byte>() + row * bytes, from.as<std::byte>() + other * bytes,
                      static_cast<size_t>(bytes));
        }
      });
  *to.exponent = *from.exponent;
}

void reverse_forward(const OpContext& c) { reverse(*c.kernel.pool, c.inputs[0], c.output()); }
void reverse_backward(const OpContext& c) {
  reverse(*c.kernel.pool, c.grad_output(), c.grad_inputs[0]);
}

}  // namespace

const Op kPad = {.name = "pad",
                 .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept},
                 .attributes = schema<PadAttributes>(kPadSchema),
                 .infer_shape = infer_pad,
                 .integer = {.forward = {.run = pad_forward}, .grad_input = {.run = pad_backward}},
                 .emit_gradient = emit_passed_gradient,
                 .fp32 = &fp32::kPad};

const Op kReshape = {.name = "reshape",
                     .traits = {.sign = Sign::kKept},
                     .attributes = schema<ReshapeAttributes>(kReshapeSchema),
                     .infer_shape = infer_reshape};

const Op kChannelShuffle = {
    .name = "channel_shuffle",
    .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept},
    .attributes = schema<ShuffleAttributes>(kShuffleSchema),
    .infer_shape = infer_shuffle,
    .integer = {.forward = {.run = shuffle_forward}, .grad_input = {.run = shuffle_backward}},
    .emit_gradient = emit_passed_gradient,
    .fp32 = &fp32::kChannelShuffle};

const Op kReverse = {
    .name = "reverse",
    .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept},
    .infer_shape = infer_reverse,
    .integer = {.forward = {.run = reverse_forward}, .grad_input = {.run = reverse_backward}},
    .emit_gradient = emit_passed_gradient,
    .fp32 = &fp32::kReverse};

}  // namespace mantissa::ops
