// quantise: values on a grid whose range is trained, for a layer that reads few bits. Source:
// METHODS section 3, [0134]-[0144]; the gradient of the range within it is LSQ's.
//
// u = clip(rne(x N / range), low, N), y = u * 2^exponent. With `signed` N is 2^(bits-1) - 1 and low
// is -N. Else N is 2^bits - 1 and low is 0; or with `offset` low is the offset in steps, rounded
// and from -N to 0, and the end is N above it: then zero is on the grid. The factor between y and
// the nearest number to x is range / (N 2^exponent). The batch norm after the layer takes it out;
// or a `rescale` there multiplies by it and has its parameters here: `channels` is the layer's
// number of channels; or it is 1. With 8 bits without `signed` y has 9 bits.
#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "numerics/real.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/gradient_sums.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/norms/rescale.h"
#include "ops/ops.h"
#include "ops/quantise_steps.h"
#include "ops/value_table.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kSchema[] = {
    required_whole<&QuantiseAttributes::bits>("bits", 1, 8),
    required_whole<&QuantiseAttributes::exponent>("exponent", kExponentMin, kExponentMax),
    flag<&QuantiseAttributes::is_signed>("signed", false),
    text<&QuantiseAttributes::learns>("learns", "lsq", "lsq clip pact half-wave"),
    flag<&QuantiseAttributes::offset>("offset", false),
    whole<&QuantiseAttributes::channels>("channels", 0, 0, INT32_MAX)};

Result<Shape> infer(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<QuantiseAttributes>();
  if (inputs.size() != 1) return invalid_input("wants one input");
  if (attributes.is_signed && attributes.bits < 2) {
    return invalid_input("wants at least 2 bits with a sign");
  }
  if (attributes.offset && attributes.is_signed) {
    return invalid_input("is signed, and such grids have no offset");
  }
  return inputs[0];
}

std::vector<Parameter> parameters(const Attributes& given, std::span<const Shape>) {
  const auto& attributes = given.as<QuantiseAttributes>();
  std::vector<Parameter> parameters = quantise_parameters(attributes.offset);
  if (const int64_t channels = attributes.channels; channels > 0) {
    const std::vector<Parameter> behind = rescale_parameters(channels);
    parameters.insert(parameters.end(), behind.begin(), behind.end());
  }
  return parameters;
}

int own_bits(const Attributes& given) {
  const auto& attributes = given.as<QuantiseAttributes>();
  return attributes.bits + (attributes.is_signed ? 0 : 1);
}

QuantiseSteps steps_of(const OpContext& c) {
  const auto& attributes = c.attributes<QuantiseAttributes>();
  return {attributes, grid_number(c.parameters[0].mantissa), *c.inputs[0].exponent,
          attributes.offset ? grid_number(c.parameters[1].mantissa) : GridNumber{}};
}

std::array<int8_t, 256> byte_table(const ValueTable& wide) {
  std::array<int8_t, 256> table;
  std::transform(wide.begin(), wide.end(), table.begin(),
                 [](int64_t value) { return static_cast<int8_t>(value); });
  return table;
}

template <typename T>
void write_steps(const OpContext& c, const QuantiseSteps& steps, T* out) {
  kernels::parallel_ranges(*c.kernel.pool, c.inputs[0].count(), kWideGrain,
                           [&, q = Mantissas(c.inputs[0])](int64_t begin, int64_t end, int64_t) {
                             for (int64_t i = begin; i < end; ++i) {
                               out[i] = static_cast<T>(steps.step(q[i]));
                             }
                           });
}

void forward(const OpContext& c) {
  const Tensor& in = c.inputs[0];
  const QuantiseSteps steps = steps_of(c);
  set_exponent(c, c.output(), c.attributes<QuantiseAttributes>().exponent);
  if (!is_bytes(c.output())) return write_steps(c, steps, c.output().as<int16_t>());
  auto* const out = c.output().as<int8_t>();
  if (is_bytes(in)) {
    const auto table = byte_table(make_value_table([&](int64_t q) { return steps.step(q); }));
    kernels::parallel_ranges(*c.kernel.pool, in.count(), kernels::kElementsPerThread,
                             [&](int64_t begin, int64_t end, int64_t) {
                               c.kernel.table->elementwise->look_up(in.as<int8_t>(), table.data(),
                                                                    out, begin, end);
                             });
    return;
  }
  write_steps(c, steps, out);
}

// dy/dx = N 2^exponent / range within the range, as mantissas of 30 bits, or 29 for gradients of 32
// bits, at 2^-shift.
struct Slope {
  int64_t mantissa;
  int shift;
};

Slope slope_of(const OpContext& c, const QuantiseSteps& steps) {
  const Real slope =
      ldexp(Real(steps.levels()), c.attributes<QuantiseAttributes>().exponent) / steps.range();
  const int bits = c.grad_output().bits <= 16 ? 30 : 29;
  const int shift = fixed_point_shift(slope, bits);
  return {to_fixed_point(slope, shift, int64_t{1} << bits), shift};
}

void backward_input(const OpContext& c) {
  const Tensor &in = c.inputs[0], &grad_input = c.grad_inputs[0];
  const QuantiseSteps steps = steps_of(c);
  const Slope slope = slope_of(c, steps);
  const int wide_exponent = *c.grad_output().exponent - slope.shift;
  const auto factor = [&](int64_t q) { return steps.is_within(q) ? slope.mantissa : 0; };
  const auto wide = [&, q = Mantissas(in), g = Mantissas(c.grad_output())](int64_t i) {
    return g[i] * factor(q[i]);
  };
  if (!is_bytes(in)) return write_wide_gradient(c, grad_input, wide_exponent, wide);
  const MantissaRange within = steps.bytes_within();
  kernels::ScaleWithin args{.grad_out = gradient_of(c.grad_output()),
                            .by = in.as<int8_t>(),
                            .low = static_cast<int8_t>(within.low),
                            .high = static_cast<int8_t>(within.high),
                            .factor = slope.mantissa,
                            .grad_in = gradient_of(grad_input)};
  narrow_gradient(c, grad_input, wide_exponent, [&](int shift, const kernels::PassCounts& counts) {
    args.shift = shift;
    return write_pieces(
        c, grad_input, grad_input.count(), kernels::kElementsPerThread, counts,
        [&](int64_t begin, int64_t end) {
          return c.kernel.table->elementwise->scale_within(args, begin, end);
        },
        wide);
  });
}

// The sum of g * factor(x), exact; factors fit 8 bits, or with 8 bits of the grid 9.
template <typename Factor>
int64_t sum_of_products(const OpContext& c, const Factor& factor) {
  const Tensor& in = c.inputs[0];
  const bool fits = is_bytes(in) && quantise_levels(c.attributes<QuantiseAttributes>()) <= INT8_MAX;
  const auto table = fits ? byte_table(make_value_table(factor)) : std::array<int8_t, 256>();
  const auto part_of = [&](int64_t begin, int64_t end) {
    if (fits) {
      return c.kernel.table->elementwise->sum_by_table(gradient_of(c.grad_output()),
                                                       in.as<int8_t>(), table.data(), begin, end);
    }
    const Mantissas mantissas(in), gradients(c.grad_output());
    int64_t sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += gradients[i] * factor(mantissas[i]);
    return sum;
  };
  std::array<int64_t, kernels::kMaximumParts> partial = {};
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, in.count(), kernels::kElementsPerThread,
      [&](int64_t begin, int64_t end, int64_t part) { partial[part] = part_of(begin, end); });
  return std::accumulate(partial.begin(), partial.begin() + parts, int64_t{0});
}

// Adds sum * 2^-fraction * 2^exponent / range, with the exponent of the grid's steps, to the
// gradient of a parameter that is trained.
template <typename Factor>
void add_gradient(const OpContext& c, const QuantiseSteps& steps, int parameter, int fraction,
                  const Factor& factor) {
  const Tensor& gradient = c.parameters[parameter].gradient;
  if (gradient.data == nullptr) return;
  const Real unit = ldexp(
      Real(1), c.attributes<QuantiseAttributes>().exponent + *c.grad_output().exponent - fraction);
  const Real value = Real(sum_of_products(c, factor)) * unit / steps.range();
  int64_t& total = gradient.as<int64_t>()[0];
  total = accumulate(total, to_fixed_point(value, -*gradient.exponent, kWideLimit));
}

// The gradient of the range: sum of g * 2^exponent / range * range_factor(x), with as many bits
// after the point as 8 bits hold. The gradient of the offset ([0142]): sum of g * 2^exponent N /
// range beyond the range.
void backward_weights(const OpContext& c) {
  const QuantiseSteps steps = steps_of(c);
  int fraction = 0;
  while (steps.levels() << (fraction + 1) <= INT8_MAX) ++fraction;
  add_gradient(c, steps, 0, fraction, [&](int64_t q) { return steps.range_factor(q, fraction); });
  if (!c.attributes<QuantiseAttributes>().offset) return;
  add_gradient(c, steps, 1, 0,
               [&](int64_t q) { return steps.is_within(q) ? int64_t{0} : steps.levels(); });
}

Status check(const OpShapes& s) { return check_gradient_sums(s, s.inputs[0].count()); }

}  // namespace

std::vector<Parameter> quantise_parameters(bool has_offset) {
  std::vector<Parameter> parameters = {{.name = "range",
                                        .shape = Shape{1},
                                        .storage = Storage::kMantissa16,
                                        .initialiser = Initialiser::kOne}};
  if (has_offset) {
    parameters.push_back({.name = "offset", .shape = Shape{1}, .storage = Storage::kMantissa16});
  }
  return parameters;
}

const Op kQuantise = {.name = "quantise",
                      .traits = {.narrowing = Narrowing::kOwnGrid, .row_by_row = true},
                      .attributes = schema<QuantiseAttributes>(kSchema),
                      .bits = own_bits,
                      .infer_shape = infer,
                      .parameters = parameters,
                      .integer = {.check = check,
                                  .forward = {.run = forward},
                                  .grad_input = {.run = backward_input},
                                  .grad_weights = {.run = backward_weights},
                                  .kernel = kernel_name<&kernels::KernelTable::elementwise>},
                      .emit_gradient = emit_weighted_gradient,
                      .fp32 = &fp32::kQuantise};

}  // namespace mantissa::ops
