// quantise: values on a grid whose range is trained, for a layer that reads few bits. Source:
// METHODS section 3, [0134]-[0144]; the gradient of the range within it is that of LSQ.
//
// u = clip(rne(x N / range), low, N), y = u * 2^exponent. With `signed` N is 2^(bits-1) - 1 and low
// is -N, else N is 2^bits - 1 and low is 0. The factor between y and the nearest of x, range / (N
// 2^exponent), is left to the batch norm behind the layer, which takes it out, or is 1.
#include <algorithm>
#include <array>

#include "kernels/kernel_table.h"
#include "kernels/parallel_ranges.h"
#include "numerics/real.h"
#include "ops/gradient_sums.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/quantise_steps.h"
#include "ops/value_table.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kSchema[] = {required_whole("bits", 1, 7),
                                     required_whole("exponent", kExponentMin, kExponentMax),
                                     flag("signed", false), text("learns", "lsq", "lsq clip")};

Result<Shape> infer(const Attributes& attributes, std::span<const Shape> inputs) {
  if (inputs.size() != 1) return invalid_input("wants one input");
  if (attributes.is_set("signed") && attributes.whole("bits") < 2) {
    return invalid_input("wants at least 2 bits with a sign");
  }
  return inputs[0];
}

std::vector<Parameter> parameters(const Attributes&, std::span<const Shape>) {
  return {{.name = "range",
           .shape = Shape{1},
           .storage = Storage::kMantissa16,
           .initialiser = Initialiser::kOne}};
}

QuantiseSteps steps_of(const OpContext& c) {
  const Tensor& range = c.parameters[0].mantissa;
  return {*c.attributes, range.as<int16_t>()[0], *range.exponent, *c.inputs[0].exponent};
}

std::array<int8_t, 256> byte_table(const ValueTable& wide) {
  std::array<int8_t, 256> table;
  std::transform(wide.begin(), wide.end(), table.begin(),
                 [](int64_t value) { return static_cast<int8_t>(value); });
  return table;
}

void forward(const OpContext& c) {
  const Tensor& in = c.inputs[0];
  const QuantiseSteps steps = steps_of(c);
  auto* const out = c.output.as<int8_t>();
  set_exponent(c, c.output, static_cast<int>(c.attributes->whole("exponent")));
  if (is_bytes(in)) {
    const auto table = byte_table(make_value_table([&](int64_t q) { return steps.step(q); }));
    kernels::parallel_ranges(*c.kernel.pool, in.count(), kernels::kElementsPerThread,
                             [&](int64_t begin, int64_t end, int64_t) {
                               c.kernels->elementwise->look_up(in.as<int8_t>(), table.data(), out,
                                                               begin, end);
                             });
    return;
  }
  kernels::parallel_ranges(*c.kernel.pool, in.count(), kWideGrain,
                           [&, q = Mantissas(in)](int64_t begin, int64_t end, int64_t) {
                             for (int64_t i = begin; i < end; ++i) {
                               out[i] = static_cast<int8_t>(steps.step(q[i]));
                             }
                           });
}

// dy/dx = N 2^exponent / range within the range, as mantissas of 30 bits, or 29 for gradients of 32
// bits, at 2^-shift.
struct Slope {
  int64_t mantissa;
  int shift;
};

Slope slope_of(const OpContext& c, const QuantiseSteps& steps) {
  const Real slope =
      ldexp(Real(steps.high()), static_cast<int>(c.attributes->whole("exponent"))) / steps.range();
  const int bits = c.grad_output.bits <= 16 ? 30 : 29;
  const int shift = fixed_point_shift(slope, bits);
  return {to_fixed_point(slope, shift, int64_t{1} << bits), shift};
}

void backward_input(const OpContext& c) {
  const Tensor &in = c.inputs[0], &grad_input = c.grad_inputs[0];
  const QuantiseSteps steps = steps_of(c);
  const Slope slope = slope_of(c, steps);
  const int wide_exponent = *c.grad_output.exponent - slope.shift;
  const auto factor = [&](int64_t q) { return steps.is_within(q) ? slope.mantissa : 0; };
  if (!is_bytes(in)) {
    narrow_gradient(c, grad_input, wide_exponent,
                    [&, q = Mantissas(in), g = Mantissas(c.grad_output)](int by) {
                      return narrow_elements(c, grad_input, true, by,
                                             [&](int64_t i) { return g[i] * factor(q[i]); });
                    });
    return;
  }
  const MantissaRange within = steps.bytes_within();
  kernels::ScaleWithin args{.grad_out = gradient_of(c.grad_output),
                            .by = in.as<int8_t>(),
                            .low = static_cast<int8_t>(within.low),
                            .high = static_cast<int8_t>(within.high),
                            .factor = slope.mantissa,
                            .grad_in = gradient_of(grad_input)};
  narrow_gradient(c, grad_input, wide_exponent, [&](int shift, kernels::PieceCounts* counts) {
    args.shift = shift;
    return write_pieces(c, grad_input, grad_input.count(), kernels::kElementsPerThread, counts,
                        [&](int64_t begin, int64_t end) {
                          return c.kernels->elementwise->scale_within(args, begin, end);
                        });
  });
}

// The gradient of the range: sum of g * 2^exponent / range * range_factor(x). Factors have as many
// bits behind the point as 8 bits hold.
void backward_weights(const OpContext& c) {
  const QuantiseSteps steps = steps_of(c);
  int fraction = 0;
  while (steps.high() << (fraction + 1) <= INT8_MAX) ++fraction;
  const auto factor = [&](int64_t q) { return steps.range_factor(q, fraction); };
  const std::array<int8_t, 256> table = byte_table(make_value_table(factor));
  std::array<int64_t, kernels::kMaximumParts> partial = {};
  const Mantissas in(c.inputs[0]), gradients(c.grad_output);
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, c.grad_output.count(), kernels::kElementsPerThread,
      [&](int64_t begin, int64_t end, int64_t part) {
        if (is_bytes(c.inputs[0])) {
          partial[part] = c.kernels->elementwise->sum_by_table(
              gradient_of(c.grad_output), c.inputs[0].as<int8_t>(), table.data(), begin, end);
          return;
        }
        partial[part] = 0;
        for (int64_t i = begin; i < end; ++i) partial[part] += gradients[i] * factor(in[i]);
      });
  int64_t sum = 0;
  for (int64_t part = 0; part < parts; ++part) sum += partial[part];
  const Real unit = ldexp(Real(1), static_cast<int>(c.attributes->whole("exponent")) +
                                       *c.grad_output.exponent - fraction);
  const Tensor& gradient = c.parameters[0].gradient;
  int64_t& total = gradient.as<int64_t>()[0];
  total = accumulate(
      total, to_fixed_point(Real(sum) * unit / steps.range(), -*gradient.exponent, kWideLimit));
}

Status check(const OpShapes& s) { return check_gradient_sums(s, s.inputs[0].count()); }

}  // namespace

const Op kQuantise = {
    .name = "quantise",
    .traits = {.weights_read_input = true, .input_reads_input = true, .has_own_grid = true},
    .attributes = kSchema,
    .infer_shape = infer,
    .parameters = parameters,
    .check = check,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weights = backward_weights,
    .kernel = kernel_name<&kernels::KernelTable::elementwise>};

}  // namespace mantissa::ops
