// scale: a value times a constant. The constant is a whole number of at most 24 bits times a power
// of two, so that products are exact; a power of two alone moves only exponents.
#include <cmath>
#include <cstdint>

#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/same_shape.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr double kLeast = 0x1p-24, kMost = 0x1p24;
constexpr AttributeSpec kSchema[] = {real<&ScaleAttributes::factor>("factor", 1, kLeast, kMost)};

// The nearest number of 24 bits, with an odd mantissa.
void derive(ScaleAttributes& attributes) {
  constexpr int kBits = 24;
  int exponent = 0;
  const double fraction = std::frexp(attributes.factor, &exponent);
  auto mantissa = static_cast<int64_t>(std::nearbyint(std::ldexp(fraction, kBits)));
  exponent -= kBits;
  for (; mantissa % 2 == 0; mantissa /= 2) ++exponent;
  attributes.mantissa = mantissa;
  attributes.exponent = exponent;
}

Status check(const OpShapes& s) {
  const bool by_rows = !s.input_grids.empty() && s.input_grids[0].blocks == Blocks::kRow;
  if (!by_rows || s.output.last() <= kMostRowChannels) return {};
  return invalid_input("with blocks=token wants at most " + std::to_string(kMostRowChannels) +
                       " channels");
}

void forward(const OpContext& c) {
  const auto& factor = c.attributes<ScaleAttributes>();
  const Tensor& input = c.inputs[0];
  const Mantissas in(input);
  if (!has_rows(c.output())) {
    return write_wide(c, *input.exponent + factor.exponent,
                      [&](int64_t i) { return in[i] * factor.mantissa; });
  }
  const int64_t channels = c.output().shape.last();
  write_rows(
      c, [&](int64_t row) { return input.row_exponent(row) + factor.exponent; },
      [&](int64_t row, int, int64_t* wide) {
        for (int64_t i = 0; i < channels; ++i) wide[i] = in[row * channels + i] * factor.mantissa;
      });
}

void backward(const OpContext& c) {
  const auto& factor = c.attributes<ScaleAttributes>();
  write_wide_gradient(c, c.grad_inputs[0], *c.grad_output().exponent + factor.exponent,
                      [&, grads = Mantissas(c.grad_output())](int64_t i) {
                        return grads[i] * factor.mantissa;
                      });
}

}  // namespace

const Op kScale = {
    .name = "scale",
    .traits = {.sign = Sign::kKept, .takes = TakenExponents::kOfRows, .row_by_row = true},
    .attributes = schema<ScaleAttributes, derive>(kSchema),
    .infer_shape = same_shape,
    .integer = {.check = check, .forward = {.run = forward}, .grad_input = {.run = backward}},
    .emit_gradient = emit_rounded_gradient,
    .fp32 = &fp32::kScale};

}  // namespace mantissa::ops
