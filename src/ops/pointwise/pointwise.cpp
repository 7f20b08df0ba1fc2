// Point-wise functions of one value, by tables if it has 8 bits or many elements: ReLU6, leaky
// ReLU, sigmoid, tanh, hard sigmoid, hard swish, GELU and its approximation with tanh, SiLU, ELU,
// softplus, mish. Backward: the gradient times f' in Q30, with f' computed anew from the input.
#include <algorithm>
#include <array>
#include <limits>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "numerics/point_functions.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/same_shape.h"
#include "ops/value_table.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kLargestDenominator = 65536;

constexpr AttributeSpec kLeakySchema[] = {real<&LeakyReluAttributes::slope>("slope", 0.01, 0, 1)};

void derive_fraction(LeakyReluAttributes& attributes) {
  attributes.fraction = nearest_fraction(attributes.slope, kLargestDenominator);
}

constexpr AttributeSpec kEluSchema[] = {real<&EluAttributes::alpha>("alpha", 1, 0, 2)};

void derive_alpha(EluAttributes& attributes) {
  attributes.fraction = nearest_fraction(attributes.alpha, kLargestDenominator);
}

// Read by leaky ReLU and ELU only.
template <const PointFunction& kFunction>
Fraction slope_of(const OpContext& c) {
  if constexpr (&kFunction == &kLeakyReluFunction) {
    return c.attributes<LeakyReluAttributes>().fraction;
  }
  if constexpr (&kFunction == &kEluFunction) return c.attributes<EluAttributes>().fraction;
  return {};
}

// A table of all mantissas of this many bits pays from this many elements per mantissa on.
constexpr int64_t kElementsOfEntry = 4;

bool uses_wide_table(int bits, int64_t elements) {
  return bits > 8 && elements >= kElementsOfEntry << bits;
}

// Bytes of the table for an input of at most this many bits; 0 without one.
int64_t wide_table_bytes(int most_bits, int64_t elements) {
  int bits = most_bits;
  while (bits > 8 && !uses_wide_table(bits, elements)) --bits;
  return bits > 8 ? (int64_t{1} << bits) * int64_t{sizeof(int64_t)} : 0;
}

OpMemory memory(const OpShapes& shapes, const PlanningContext& planning) {
  const bool by_rows = !shapes.input_grids.empty() && shapes.input_grids[0].blocks == Blocks::kRow;
  const int64_t wide =
      by_rows ? 0 : wide_table_bytes(shapes.input_bits(0), shapes.inputs[0].count());
  return {
      .forward = {.workspace_bytes = std::max(wide, value_table_workspace_bytes(planning.threads))},
      .grad_input = {.workspace_bytes = wide}};
}

// Calls use(f) with f(i) = function(mantissa i of the input), looked up in a table in the workspace
// if there are many.
template <typename Function, typename Use>
void with_wide_function(const OpContext& c, const Function& function, const Use& use) {
  const Tensor& input = c.inputs[0];
  if (!uses_wide_table(input.bits, input.count())) {
    return use([in = Mantissas(input), &function](int64_t i) { return function(in[i]); });
  }
  const int64_t half = int64_t{1} << (input.bits - 1);
  auto* const table = reinterpret_cast<int64_t*>(c.memory.workspace) + half;  // by signed mantissas
  kernels::parallel_ranges(*c.kernel.pool, 2 * half, 1024,
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t i = std::max<int64_t>(1, begin); i < end; ++i) {
                               table[i - half] = function(i - half);
                             }
                           });
  use([in = input.as<int16_t>(), table](int64_t i) { return table[in[i]]; });
}

template <const PointFunction& kFunction>
void forward_wide(const OpContext& c) {
  const int e = *c.inputs[0].exponent, wide_exponent = kFunction.wide_exponent(e);
  if (kFunction.clips != nullptr) {
    if (MantissaRange range; kFunction.clips(e, &range)) {
      return kernels::with_value_type(c.inputs[0].bits, [&](auto type) {
        // Clipped in its own type, so that a vector holds more.
        using T = decltype(type);
        const auto limit = [](int64_t n) {
          return static_cast<T>(
              std::clamp<int64_t>(n, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
        };
        const T *in = c.inputs[0].as<T>(), low = limit(range.low), high = limit(range.high);
        write_wide(c, wide_exponent,
                   [&](int64_t i) { return int64_t{std::clamp(in[i], low, high)}; });
      });
    }
  }
  const Fraction slope = slope_of<kFunction>(c);
  with_wide_function(
      c, [&](int64_t q) { return kFunction.value(q, e, slope); },
      [&](const auto& value) { write_wide(c, wide_exponent, value); });
}

template <const PointFunction& kFunction>
void forward_rows(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const Mantissas in(input);
  const Fraction slope = slope_of<kFunction>(c);
  const int64_t channels = c.output().shape.last();
  const auto exponent_at = [&](int64_t row) {
    return kFunction.wide_exponent(input.row_exponent(row));
  };
  write_rows(c, exponent_at, [&](int64_t row, int, int64_t* wide) {
    const int e = input.row_exponent(row);
    const int64_t first = row * channels;
    if constexpr (&kFunction == &kGeluFunction) {
      c.kernel.table->wide->gelu({gradient_from(input, first), e, wide}, 0, channels);
    } else if constexpr (&kFunction == &kSiluFunction) {
      c.kernel.table->wide->silu({gradient_from(input, first), e, wide}, 0, channels);
    } else {
      for (int64_t i = 0; i < channels; ++i) wide[i] = kFunction.value(in[first + i], e, slope);
    }
  });
}

template <const PointFunction& kFunction>
void forward(const OpContext& c) {
  if (has_rows(c.output())) return forward_rows<kFunction>(c);
  if (!is_bytes(c.inputs[0]) || !is_bytes(c.output())) return forward_wide<kFunction>(c);
  const int e = *c.inputs[0].exponent;
  const Fraction slope = slope_of<kFunction>(c);
  const ValueTable table =
      make_value_table([&](int64_t q) { return kFunction.value(q, e, slope); });
  write_by_table(c, c.inputs[0].as<int8_t>(), table, kFunction.wide_exponent(e));
}

// Bits that f' in Q30 has to leave to gradients of 32, so that products stay below 2^61.
int cut_bits(const OpContext& c) { return c.grad_output().bits <= 16 ? 0 : 1; }

template <const PointFunction& kFunction>
ValueTable derivatives(const OpContext& c) {
  const int e = *c.inputs[0].exponent;
  const Fraction slope = slope_of<kFunction>(c);
  return make_value_table([&, cut = cut_bits(c)](int64_t q) {
    return shift_right_rne(kFunction.derivative_q30(q, e, slope), cut);
  });
}

template <const PointFunction& kFunction>
void backward_wide(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const Mantissas grads(c.grad_output());
  const int e = *c.inputs[0].exponent, cut = cut_bits(c);
  const Fraction slope = slope_of<kFunction>(c);
  with_wide_function(
      c, [&](int64_t q) { return shift_right_rne(kFunction.derivative_q30(q, e, slope), cut); },
      [&](const auto& derivative) {
        write_wide_gradient(c, grad_input, *c.grad_output().exponent - 30 + cut,
                            [&](int64_t i) { return grads[i] * derivative(i); });
      });
}

template <const PointFunction& kFunction>
void backward_rows(const OpContext& c) {
  const Tensor &input = c.inputs[0], &grad_input = c.grad_inputs[0];
  const Mantissas in(input), grads(c.grad_output());
  const Fraction slope = slope_of<kFunction>(c);
  const int cut = cut_bits(c);
  const int64_t channels = input.shape.last();
  const bool has_kernel = &kFunction == &kSiluFunction && c.grad_output().bits <= 16;
  const auto fill = [&](int64_t row, int64_t* wide) {
    const int e = input.row_exponent(row);
    if (has_kernel) {
      const int64_t first = row * channels;
      const kernels::SiluGradient args{.in = gradient_from(input, first),
                                       .grad_out = gradient_from(c.grad_output(), first),
                                       .exponent = e,
                                       .wide = wide};
      return c.kernel.table->wide->silu_gradient(args, 0, channels);
    }
    for (int64_t i = 0, at = row * channels; i < channels; ++i, ++at) {
      const int64_t derivative =
          grads[at] == 0 ? 0 : shift_right_rne(kFunction.derivative_q30(in[at], e, slope), cut);
      wide[i] = grads[at] * derivative;
    }
  };
  narrow_gradient(c, grad_input, *c.grad_output().exponent - 30 + cut,
                  [&](int shift, const kernels::PassCounts& counts) {
                    return narrow_rows(c, grad_input, true, shift, fill, counts);
                  });
}

template <const PointFunction& kFunction>
void backward(const OpContext& c) {
  if (has_rows(c.inputs[0])) return backward_rows<kFunction>(c);
  if (!is_bytes(c.inputs[0])) return backward_wide<kFunction>(c);
  const Tensor& grad_input = c.grad_inputs[0];
  const ValueTable factors = derivatives<kFunction>(c);
  kernels::ScaleGradient args{.grad_out = gradient_of(c.grad_output()),
                              .by = c.inputs[0].as<int8_t>(),
                              .factors = factors.data(),
                              .grad_in = gradient_of(grad_input)};
  const auto narrow = [&](int shift, const kernels::PassCounts& counts) {
    args.shift = shift;
    return write_pieces(
        c, grad_input, grad_input.count(), kernels::kElementsPerThread, counts,
        [&](int64_t begin, int64_t end) {
          return c.kernel.table->elementwise->scale_gradient(args, begin, end);
        },
        [&, grads = Mantissas(c.grad_output())](int64_t i) {
          return grads[i] * factors[static_cast<uint8_t>(args.by[i])];
        });
  };
  narrow_gradient(c, grad_input, *c.grad_output().exponent - 30 + cut_bits(c), narrow);
}

// mask[i] = whether in[at + i] is in the range, for `count` elements.
void mask_within(const OpContext& c, MantissaRange range, int64_t at, int64_t count, int8_t* mask) {
  const Tensor& in = c.inputs[0];
  if (is_bytes(in)) {
    const auto most = static_cast<int8_t>(std::min<int64_t>(range.high, INT8_MAX));
    return c.kernel.table->elementwise->within(in.as<int8_t>() + at, static_cast<int8_t>(range.low),
                                               most, mask, 0, count);
  }
  const int16_t* values = in.as<int16_t>() + at;
  const auto least = static_cast<int16_t>(range.low);
  const auto most = static_cast<int16_t>(std::min<int64_t>(range.high, INT16_MAX));
  for (int64_t i = 0; i < count; ++i) mask[i] = values[i] >= least && values[i] <= most;
}

// If f' is 0 or 1 everywhere: gradients pass unchanged, or do not pass.
template <const PointFunction& kFunction>
void backward_by_mask(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const Tensor& in = c.inputs[0];
  constexpr int64_t kMost = 4096;
  const int64_t length = has_rows(in) ? in.shape.last() : in.count();  // with one exponent
  kernels::parallel_ranges(*c.kernel.pool, in.count(), kernels::kElementsPerThread,
                           [&](int64_t begin, int64_t end, int64_t) {
                             std::array<int8_t, kMost> mask;
                             for (int64_t at = begin, count = 0; at < end; at += count) {
                               count = std::min({kMost, end - at, length - at % length});
                               const MantissaRange range =
                                   kFunction.passes(in.row_exponent(at / length));
                               mask_within(c, range, at, count, mask.data());
                               c.kernel.table->elementwise->relu_gradient(
                                   mask.data(), gradient_from(c.grad_output(), at),
                                   gradient_from(grad_input, at), 0, count);
                             }
                           });
  *grad_input.exponent = *c.grad_output().exponent;
}

// A row for one function.
template <const PointFunction& kFunction>
constexpr Op row(const char* name, const OpRows* fp32) {
  return {.name = name,
          .traits = {.takes = TakenExponents::kOfRows, .row_by_row = true},
          .infer_shape = same_shape,
          .integer = {.memory = memory,
                      .forward = {.run = forward<kFunction>},
                      .grad_input = {.run = backward<kFunction>},
                      .kernel = kernel_name<&kernels::KernelTable::elementwise>},
          .emit_gradient = emit_gradient_by_inputs,
          .fp32 = fp32};
}

constexpr Op relu6_row() {
  Op op = row<kRelu6Function>("relu6", &fp32::kRelu6);
  op.traits.sign = Sign::kNeverNegative;
  op.traits.clips = {.negatives = true, .above = 6};
  op.integer.grad_input.run = backward_by_mask<kRelu6Function>;
  op.emit_gradient = emit_passed_gradient_by_inputs;
  return op;
}

// Functions without negative results.
constexpr Op positive_row(Op op) {
  op.traits.sign = Sign::kNeverNegative;
  return op;
}

constexpr Op leaky_relu_row() {
  Op op = row<kLeakyReluFunction>("leaky_relu", &fp32::kLeakyRelu);
  op.attributes = schema<LeakyReluAttributes, derive_fraction>(kLeakySchema);
  return op;
}

constexpr AttributeSpec kWidthSchema[] = {
    whole<&WidthAttributes::least_bits>("least_bits", 0, 0, 16)};

// Functions whose results may have more bits.
constexpr Op widened_row(Op op) {
  op.attributes = schema<WidthAttributes>(kWidthSchema);
  op.bits = least_bits<WidthAttributes>;
  return op;
}

constexpr Op elu_row() {
  Op op = row<kEluFunction>("elu", &fp32::kElu);
  op.attributes = schema<EluAttributes, derive_alpha>(kEluSchema);
  return op;
}

}  // namespace

const Op kRelu6 = relu6_row();
const Op kLeakyRelu = leaky_relu_row();
const Op kSigmoid = positive_row(row<kSigmoidFunction>("sigmoid", &fp32::kSigmoid));
const Op kTanh = row<kTanhFunction>("tanh", &fp32::kTanh);
const Op kHardSigmoid =
    positive_row(row<kHardSigmoidFunction>("hard_sigmoid", &fp32::kHardSigmoid));
const Op kHardSwish = row<kHardSwishFunction>("hard_swish", &fp32::kHardSwish);
const Op kGelu = row<kGeluFunction>("gelu", &fp32::kGelu);
const Op kGeluTanh = widened_row(row<kGeluTanhFunction>("gelu_tanh", &fp32::kGeluTanh));
const Op kSilu = widened_row(row<kSiluFunction>("silu", &fp32::kSilu));
const Op kElu = elu_row();
const Op kSoftplus = positive_row(row<kSoftplusFunction>("softplus", &fp32::kSoftplus));
const Op kMish = row<kMishFunction>("mish", &fp32::kMish);

}  // namespace mantissa::ops
