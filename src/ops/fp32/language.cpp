// Embeddings, layer norm and RMS norm in fp32.
#include <algorithm>

#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/fp32/block_floats.h"

namespace mantissa::ops::fp32 {
namespace {

void embedding(const OpContext& c) {
  const Tensor& table = c.parameters[0].mantissa;
  const int64_t channels = table.shape[1];
  const BlockKind kind = c.attributes<EmbeddingAttributes>().weight_blocks;
  const int64_t blocks = channels / block_weights(kind);
  const auto* indices = c.inputs[0].as<int32_t>();
  for_ranges(c, c.inputs[0].count(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = std::clamp<int64_t>(indices[i], 0, table.shape[0] - 1);
      if (kind != BlockKind::kNone) {
        write_block_floats(table, kind, row * blocks, (row + 1) * blocks,
                           c.output().as<float>() + i * channels);
        continue;
      }
      std::copy_n(table.as<float>() + row * channels, channels,
                  c.output().as<float>() + i * channels);
    }
  });
}

// Channels shared among threads, so that no two add to one element.
void embedding_backward_weights(const OpContext& c) {
  constexpr int64_t kChannelsAtOnce = 64;
  const Tensor& gradient = c.parameters[0].gradient;
  const int64_t channels = gradient.shape[1];
  const auto* indices = c.inputs[0].as<int32_t>();
  kernels::parallel_ranges(
      *c.kernel.pool, channels, kChannelsAtOnce, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t i = 0; i < c.inputs[0].count(); ++i) {
          const int64_t row = std::clamp<int64_t>(indices[i], 0, gradient.shape[0] - 1);
          const float* from = c.grad_output().as<float>() + i * channels;
          float* to = gradient.as<float>() + row * channels;
          for (int64_t k = begin; k < end; ++k) to[k] += from[k];
        }
      });
}

// Elements of a sequence; the positions' parameter has one for each.
int64_t sequence_size(const Shape& shape) { return shape[shape.rank - 2] * shape.last(); }

void positions(const OpContext& c) {
  const int64_t size = sequence_size(c.output().shape), channels = c.output().shape.last();
  const float* table = c.parameters[0].mantissa.as<float>() + c.step.scalars->position * channels;
  for_images(c, c.output().count() / channels, [&](int64_t row) {
    const int64_t at = row * channels;
    const float *in = c.inputs[0].as<float>() + at, *position = table + at % size;
    float* out = c.output().as<float>() + at;
    for (int64_t i = 0; i < channels; ++i) out[i] = in[i] + position[i];
  });
}

void positions_backward(const OpContext& c) {
  std::copy_n(c.grad_output().as<float>(), c.grad_inputs[0].count(), c.grad_inputs[0].as<float>());
}

void positions_backward_weights(const OpContext& c) {
  const int64_t size = sequence_size(c.grad_output().shape), count = c.grad_output().count();
  const auto* from = c.grad_output().as<float>();
  auto* gradient = c.parameters[0].gradient.as<float>();
  for_each(c, size, [&](int64_t i) {
    double sum = 0;
    for (int64_t at = i; at < count; at += size) sum += from[at];
    gradient[i] += static_cast<float>(sum);
  });
}

// Channels that one norm covers: the row's, or one head's.
int64_t norm_channels(const OpContext& c, const Shape& shape) {
  return shape.last() / c.attributes<RowNormAttributes>().heads;
}

template <bool kCentred>
kernels::FloatNorm row_norm(const OpContext& c, int64_t row, int64_t channels) {
  return c.kernel.table->floats->row_norm(c.inputs[0].as<float>() + row * channels, channels,
                                          kCentred, c.attributes<RowNormAttributes>().epsilon);
}

template <bool kCentred>
void norm(const OpContext& c) {
  const int64_t channels = norm_channels(c, c.output().shape);
  for_images(c, c.output().count() / channels, [&](int64_t row) {
    const int64_t at = row * channels;
    c.kernel.table->floats->normalise(c.inputs[0].as<float>() + at,
                                      row_norm<kCentred>(c, row, channels),
                                      c.parameters[0].mantissa.as<float>(),
                                      kCentred ? c.parameters[1].mantissa.as<float>() : nullptr,
                                      channels, c.output().as<float>() + at);
  });
}

// For each row its norm.
OpMemory norm_memory(const OpShapes& shapes, const PlanningContext&) {
  const int64_t heads = shapes.attributes->as<RowNormAttributes>().heads;
  const int64_t rows = shapes.output.count() / shapes.output.last() * heads;
  OpMemory memory;
  memory.grad_weights.scratch_bytes = rows * int64_t{sizeof(kernels::FloatNorm)};
  return memory;
}

// Rows in their order, channels shared among threads.
template <bool kCentred>
void norm_backward_weights(const OpContext& c) {
  constexpr int64_t kChannelsAtOnce = 64;
  const int64_t channels = norm_channels(c, c.grad_output().shape);
  const int64_t rows = c.grad_output().count() / channels;
  auto* const norms = reinterpret_cast<kernels::FloatNorm*>(c.kernel.scratch.data());
  for_images(c, rows, [&](int64_t row) { norms[row] = row_norm<kCentred>(c, row, channels); });
  const auto gradient_at = [&](size_t parameter, int64_t channel) {
    const bool wanted =
        parameter < c.parameters.size() && !c.parameters[parameter].gradient.empty();
    return wanted ? c.parameters[parameter].gradient.as<float>() + channel : nullptr;
  };
  kernels::parallel_ranges(
      *c.kernel.pool, channels, kChannelsAtOnce, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t row = 0; row < rows; ++row) {
          const int64_t at = row * channels + begin;
          c.kernel.table->floats->add_norm_gradients(
              c.inputs[0].as<float>() + at, c.grad_output().as<float>() + at, norms[row],
              end - begin, gradient_at(0, begin), gradient_at(1, begin));
        }
      });
}

template <bool kCentred>
void norm_backward(const OpContext& c) {
  const int64_t channels = norm_channels(c, c.grad_output().shape);
  for_images(c, c.grad_output().count() / channels, [&](int64_t row) {
    const int64_t at = row * channels;
    c.kernel.table->floats->norm_backward(
        c.inputs[0].as<float>() + at, c.grad_output().as<float>() + at,
        row_norm<kCentred>(c, row, channels), c.parameters[0].mantissa.as<float>(), kCentred,
        channels, c.grad_inputs[0].as<float>() + at);
  });
}

template <bool kCentred>
constexpr OpRows norm_functions() {
  return {.memory = norm_memory,
          .forward = {.run = norm<kCentred>},
          .grad_input = {.run = norm_backward<kCentred>},
          .grad_weights = {.run = norm_backward_weights<kCentred>},
          .kernel = floats_name};
}

}  // namespace

const OpRows kEmbedding = {.forward = {.run = embedding},
                           .grad_weights = {.run = embedding_backward_weights},
                           .kernel = loops_name};
const OpRows kPositionEmbedding = {.forward = {.run = positions},
                                   .grad_input = {.run = positions_backward},
                                   .grad_weights = {.run = positions_backward_weights},
                                   .kernel = loops_name};
const OpRows kLayerNorm = norm_functions<true>();
const OpRows kRmsNorm = norm_functions<false>();

}  // namespace mantissa::ops::fp32
