// PReLU: x, or a trained slope times x for x <= 0. The slopes, one for each channel or one for all,
// are whole numbers of their own unit, or of 2^-30 if that is larger. Gradients are exact products,
// narrowed once; of the slopes exact sums, rounded once.
#include <algorithm>
#include <string>

#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/ops.h"
#include "ops/pointwise/prelu.h"
#include "ops/same_shape.h"
#include "ops/wide_sums.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kPreluSchema[] = {flag<&PreluAttributes::shared>("shared", false)};

std::vector<Parameter> slope_parameter(const Attributes& attributes,
                                       std::span<const Shape> inputs) {
  const int64_t count = attributes.as<PreluAttributes>().shared ? 1 : inputs[0].last();
  return {{.name = "slope",
           .shape = Shape{count},
           .storage = Storage::kMantissa16,
           .initialiser = Initialiser::kQuarter}};
}

// Sums of a part over all its rows, and over a few.
int64_t slope_sums_bytes(int64_t channels) {
  return round_up<int64_t>(channels * int64_t{sizeof(Wide) + sizeof(int64_t)}, 64);
}

OpMemory memory(const OpShapes& s, const PlanningContext&) {
  const int64_t channels = s.output.last(), units = channels * int64_t{sizeof(int64_t)};
  return {.forward = {.workspace_bytes = units},
          .grad_input = {.workspace_bytes = units},
          .grad_weights = {.workspace_bytes = kernels::kMaximumParts * slope_sums_bytes(channels)}};
}

// The slope of each channel in units of 2^exponent: |slope| <= 2^30, one is 2^-exponent.
struct Slopes {
  const int64_t* units;
  int exponent;
};

Slopes slopes_of(const OpContext& c) {
  const Tensor& slope = c.parameters[0].mantissa;
  const int64_t channels = c.inputs[0].shape.last(), count = slope.count();
  auto* const units = reinterpret_cast<int64_t*>(c.memory.workspace);
  for (int64_t i = 0; i < channels; ++i) {
    units[i] = prelu_factor(0, slope.as<int16_t>()[count == 1 ? 0 : i], *slope.exponent);
  }
  return {units, prelu_unit(*slope.exponent)};
}

// Products stay below 2^61: mantissas have at most 32 bits.
void forward(const OpContext& c) {
  const Slopes slopes = slopes_of(c);
  const int64_t one = int64_t{1} << -slopes.exponent;
  const int64_t channels = c.inputs[0].shape.last();
  kernels::with_value_type(c.inputs[0].bits, [&](auto type) {
    const auto* in = c.inputs[0].as<decltype(type)>();
    write_wide(c, *c.inputs[0].exponent + slopes.exponent, [&](int64_t i, int64_t channel = -1) {
      const int64_t q = in[i];
      return q * (q > 0 ? one : slopes.units[channel < 0 ? i % channels : channel]);
    });
  });
}

void backward_input(const OpContext& c) {
  const Slopes slopes = slopes_of(c);
  const int64_t one = int64_t{1} << -slopes.exponent;
  const Mantissas in(c.inputs[0]), grads(c.grad_output());
  write_wide_gradient(c, c.grad_inputs[0], *c.grad_output().exponent + slopes.exponent,
                      [&](int64_t i, int64_t channel) {
                        return grads[i] * (in[i] > 0 ? one : slopes.units[channel]);
                      });
}

// sums[channel] += gradient * min(x, 0) of rows [begin, end), at most kRowsAtOnce.
constexpr int64_t kRowsAtOnce = int64_t{1} << 16;  // of products below 2^46

template <typename Value, typename Gradient>
void add_products(const Value* in, const Gradient* grads, int64_t rows, int64_t channels,
                  int64_t* sums) {
  for (int64_t row = 0; row < rows; ++row, in += channels, grads += channels) {
    for (int64_t i = 0; i < channels; ++i) {
      sums[i] += int64_t{std::min<Value>(in[i], 0)} * grads[i];
    }
  }
}

void backward_weights(const OpContext& c) {
  const Tensor &in = c.inputs[0], &grads = c.grad_output();
  const int64_t channels = in.shape.last(), rows = in.count() / channels;
  const auto sums_of_part = [&](int64_t part) {
    return reinterpret_cast<Wide*>(c.memory.workspace + part * slope_sums_bytes(channels));
  };
  const int64_t grain = std::max<int64_t>(1, kernels::kElementsPerThread / channels);
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, rows, grain, [&](int64_t begin, int64_t end, int64_t part) {
        Wide* const all = sums_of_part(part);
        auto* const some = reinterpret_cast<int64_t*>(all + channels);
        std::fill_n(all, channels, Wide{0});
        for (int64_t row = begin; row < end; row += kRowsAtOnce) {
          std::fill_n(some, channels, int64_t{0});
          kernels::with_value_type(in.bits, [&](auto value) {
            kernels::with_wide_gradient_type(grads.bits, [&](auto gradient) {
              add_products(in.as<decltype(value)>() + row * channels,
                           grads.as<decltype(gradient)>() + row * channels,
                           std::min(end - row, kRowsAtOnce), channels, some);
            });
          });
          for (int64_t i = 0; i < channels; ++i) all[i] += some[i];
        }
      });
  const bool shared = c.attributes<PreluAttributes>().shared;
  add_sums(c.parameters[0].gradient, *grads.exponent + *in.exponent, [&](int64_t i) {
    Wide sum = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const Wide* const sums = sums_of_part(part);
      for (int64_t k = shared ? 0 : i; k < (shared ? channels : i + 1); ++k) sum += sums[k];
    }
    return sum;
  });
}

}  // namespace

const Op kPrelu = {.name = "prelu",
                   .traits = {.row_by_row = true},
                   .attributes = schema<PreluAttributes>(kPreluSchema),
                   .infer_shape = same_shape,
                   .parameters = slope_parameter,
                   .integer = {.memory = memory,
                               .forward = {.run = forward},
                               .grad_input = {.run = backward_input},
                               .grad_weights = {.run = backward_weights}},
                   .emit_gradient = emit_weighted_gradient,
                   .fp32 = &fp32::kPrelu};

}  // namespace mantissa::ops
