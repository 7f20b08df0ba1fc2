// Operators that bring numbers to a mean of 0 and a variance of 1, with a scale and an offset.
// Statistics are summed in double.
#include <algorithm>
#include <cmath>

#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

struct Moments {
  double mean = 0;
  double variance = 0;  // of the population
};

// Over `blocks` runs of `size` numbers, `stride` apart.
Moments moments_of(const float* in, int64_t blocks, int64_t stride, int64_t size) {
  const double count = static_cast<double>(blocks) * static_cast<double>(size);
  double sum = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    for (int64_t i = 0; i < size; ++i) sum += in[b * stride + i];
  }
  const double mean = sum / count;
  double squares = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    for (int64_t i = 0; i < size; ++i) {
      const double distance = in[b * stride + i] - mean;
      squares += distance * distance;
    }
  }
  return {mean, squares / count};
}

// out = (in - mean) / sqrt(variance + epsilon) * scale + bias, as one factor and one offset.
void normalise(const float* in, float* out, int64_t size, const Moments& moments, float epsilon,
               float scale, float bias) {
  const double factor = scale / std::sqrt(moments.variance + static_cast<double>(epsilon));
  for (int64_t i = 0; i < size; ++i) {
    out[i] = static_cast<float>((in[i] - moments.mean) * factor + bias);
  }
}

Status check_channels(OpCall& call, size_t first, size_t last, int64_t channels) {
  for (size_t i = first; i <= last; ++i) {
    if (call.dims(i) == Dims{channels}) continue;
    return invalid_input("input " + std::to_string(i) + " has dims " + to_text(call.dims(i)) +
                         " where there are " + std::to_string(channels) + " channels");
  }
  return {};
}

bool batch_norm_trains(OpCall& call) {
  if (call.opset() >= 14) return call.integer("training_mode", 0) != 0;
  if (call.opset() < 7) return call.integer("is_test", 0) == 0;
  return call.wants(1) || call.wants(2);
}

Status batch_normalisation(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(5));
  if (call.rank(0) < 2) return invalid_input("a value of rank below 2");
  if (call.integer("spatial", 1) == 0) return invalid_input("spatial = 0");
  const Dims& dims = call.dims(0);
  const int64_t channels = dims[1];
  MANTISSA_RETURN_IF_ERROR(check_channels(call, 1, 4, channels));
  const float epsilon = call.real("epsilon", 1e-5f);
  const float momentum = call.real("momentum", 0.9f);
  const bool trains = batch_norm_trains(call);
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  for (size_t i = 1; i < call.node().outputs.size(); ++i) {
    MANTISSA_RETURN_IF_ERROR(call.make(i, ElementType::kFloat, {channels}));
  }
  if (call.shapes_only()) return {};
  const int64_t size = count_of({dims.begin() + 2, dims.end()});
  call.pool().parallel_for(channels, [&](int64_t c, int) {
    const float* in = call.data<float>(0) + c * size;
    float* out = call.out<float>(0) + c * size;
    const float mean = call.data<float>(3)[c];
    const float variance = call.data<float>(4)[c];
    const Moments moments =
        trains ? moments_of(in, dims[0], channels * size, size) : Moments{mean, variance};
    for (int64_t n = 0; n < dims[0]; ++n) {
      normalise(in + n * channels * size, out + n * channels * size, size, moments, epsilon,
                call.data<float>(1)[c], call.data<float>(2)[c]);
    }
    const auto running = [momentum](float old, double now) {
      return static_cast<float>(old * momentum + now * (1 - momentum));
    };
    // Outputs 3 and 4, of old operator sets: the batch's own.
    if (call.wants(1)) call.out<float>(1)[c] = running(mean, moments.mean);
    if (call.wants(2)) call.out<float>(2)[c] = running(variance, moments.variance);
    if (call.wants(3)) call.out<float>(3)[c] = static_cast<float>(moments.mean);
    if (call.wants(4)) call.out<float>(4)[c] = static_cast<float>(moments.variance);
  });
  return {};
}

Status instance_normalisation(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(3));
  if (call.rank(0) < 2) return invalid_input("a value of rank below 2");
  const Dims& dims = call.dims(0);
  MANTISSA_RETURN_IF_ERROR(check_channels(call, 1, 2, dims[1]));
  const float epsilon = call.real("epsilon", 1e-5f);
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  if (call.shapes_only()) return {};
  const int64_t size = count_of({dims.begin() + 2, dims.end()});
  for (int64_t row = 0; row < dims[0] * dims[1]; ++row) {
    const float* in = call.data<float>(0) + row * size;
    normalise(in, call.out<float>(0) + row * size, size, moments_of(in, 1, 0, size), epsilon,
              call.data<float>(1)[row % dims[1]], call.data<float>(2)[row % dims[1]]);
  }
  return {};
}

// Scale and bias are one for each group, since operator set 21 one for each channel.
Status group_normalisation(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(3));
  const Dims& dims = call.dims(0);
  const int64_t groups = call.integer("num_groups", 0);
  if (dims.size() < 2 || groups < 1 || dims[1] % groups != 0) {
    return invalid_input("dims " + to_text(dims) + " in " + std::to_string(groups) + " groups");
  }
  if (call.integer("stash_type", 1) != 1) return invalid_input("a stash_type other than float");
  const int64_t scales = call.opset() < 21 ? groups : dims[1];
  MANTISSA_RETURN_IF_ERROR(check_channels(call, 1, 2, scales));
  const float epsilon = call.real("epsilon", 1e-5f);
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  if (call.shapes_only()) return {};
  const int64_t size = count_of({dims.begin() + 2, dims.end()});
  const int64_t per_group = dims[1] / groups;
  for (int64_t row = 0; row < dims[0] * groups; ++row) {
    const float* in = call.data<float>(0) + row * per_group * size;
    float* out = call.out<float>(0) + row * per_group * size;
    const Moments moments = moments_of(in, 1, 0, per_group * size);
    for (int64_t c = 0; c < per_group; ++c) {
      const int64_t channel = row % groups * per_group + c;
      const int64_t scale = call.opset() < 21 ? row % groups : channel;
      normalise(in + c * size, out + c * size, size, moments, epsilon, call.data<float>(1)[scale],
                call.data<float>(2)[scale]);
    }
  }
  return {};
}

Status layer_normalisation(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(3));
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", -1), call.rank(0)));
  if (call.integer("stash_type", 1) != 1) return invalid_input("a stash_type other than float");
  const Dims& dims = call.dims(0);
  const Dims inner(dims.begin() + axis, dims.end());
  for (size_t i = 1; i < call.input_count(); ++i) {
    if (!call.has(i)) continue;
    MANTISSA_ASSIGN(const Dims both, broadcast(inner, call.dims(i)));
    if (both != inner) return invalid_input("a scale or bias of dims " + to_text(call.dims(i)));
  }
  const float epsilon = call.real("epsilon", 1e-5f);
  Dims statistics = dims;
  std::fill(statistics.begin() + axis, statistics.end(), 1);
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  MANTISSA_RETURN_IF_ERROR(call.make(1, ElementType::kFloat, statistics));
  MANTISSA_RETURN_IF_ERROR(call.make(2, ElementType::kFloat, statistics));
  if (call.shapes_only()) return {};
  const int64_t size = count_of(inner);
  // Places of scale and bias, which may broadcast.
  const Dims none(inner.size(), 0);
  const Loops loops = merged({inner,
                              {broadcast_strides(call.dims(1), inner),
                               call.has(2) ? broadcast_strides(call.dims(2), inner) : none}});
  for (int64_t row = 0; row < count_of(statistics); ++row) {
    const float* in = call.data<float>(0) + row * size;
    float* out = call.out<float>(0) + row * size;
    const Moments moments = moments_of(in, 1, 0, size);
    const double inverse = 1 / std::sqrt(moments.variance + static_cast<double>(epsilon));
    walk(loops, [&](const int64_t* offsets, const int64_t* steps, int64_t count) {
      const float* scale = call.data<float>(1) + offsets[0];
      const float* bias = call.has(2) ? call.data<float>(2) + offsets[1] : nullptr;
      for (int64_t i = 0; i < count; ++i) {
        const double x = (*in++ - moments.mean) * inverse * scale[i * steps[0]];
        *out++ = static_cast<float>(x + (bias == nullptr ? 0.0f : bias[i * steps[1]]));
      }
    });
    call.out<float>(1)[row] = static_cast<float>(moments.mean);
    call.out<float>(2)[row] = static_cast<float>(inverse);
  }
  return {};
}

constexpr OpRow kNormalisationRows[] = {
    {"BatchNormalization", 6, batch_normalisation, 5, "epsilon is_test momentum spatial", 6, 5},
    {"BatchNormalization", 7, batch_normalisation, 5, "epsilon momentum spatial", 8, 5},
    {"BatchNormalization", 9, batch_normalisation, 5, "epsilon momentum", 13, 5},
    {"BatchNormalization", 14, batch_normalisation, 5, "epsilon momentum training_mode",
     kNewestOpset, 3},
    {"InstanceNormalization", 6, instance_normalisation, 3, "epsilon"},
    {"GroupNormalization", 18, group_normalisation, 3, "epsilon num_groups stash_type"},
    {"LayerNormalization",
     17,
     layer_normalisation,
     {2, 3},
     "axis epsilon stash_type",
     kNewestOpset,
     3},
};

}  // namespace

std::span<const OpRow> normalisation_operators() { return kNormalisationRows; }

}  // namespace mantissa::onnx
