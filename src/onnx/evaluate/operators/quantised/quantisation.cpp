// Operators between real numbers and their quantised forms.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/operators/quantised/nibbles.h"

namespace mantissa::onnx {
namespace {

using QuantisedTypes = Types<int8_t, uint8_t, int16_t, uint16_t, int32_t>;

// Scales are one number, or one for each place along an axis, or one for each block along it.
struct Layout {
  int64_t size = 1;   // along the axis
  int64_t inner = 1;  // numbers beside each other with one scale, or, in blocks, each with its own
  int64_t block = 0;  // places that share scales; 0: no blocks

  // The index of the scale of number i.
  int64_t place(int64_t i) const {
    if (block == 0) return i / inner % size;
    const int64_t blocks = (size + block - 1) / block;
    return (i / inner / size * blocks + i / inner % size / block) * inner + i % inner;
  }
};

Result<Layout> blocked_layout(OpCall& call, int64_t axis, int64_t block) {
  Dims wanted = call.dims(0);
  wanted[axis] = (wanted[axis] + block - 1) / block;
  if (block < 1 || call.dims(1) != wanted) {
    return invalid_input("scales of dims " + to_text(call.dims(1)) + " for blocks of " +
                         std::to_string(block) + " in a value of dims " + to_text(call.dims(0)));
  }
  const Dims& dims = call.dims(0);
  return Layout{dims[axis], count_of({dims.begin() + axis + 1, dims.end()}), block};
}

Result<Layout> layout_of(OpCall& call) {
  if (call.has(2) && count_of(call.dims(2)) != count_of(call.dims(1))) {
    return invalid_input("other zero points than scales");
  }
  if (const int64_t block = call.integer("block_size", 0); block != 0) {
    MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", 1), call.rank(0)));
    return blocked_layout(call, axis, block);
  }
  if (call.rank(1) > 1) return invalid_input("scales of dims " + to_text(call.dims(1)));
  // A list with one scale holds for all, whatever the axis.
  if (call.rank(1) == 0 || call.dims(1)[0] == 1) return Layout{1, 1};
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", 1), call.rank(0)));
  const Dims& dims = call.dims(0);
  if (call.dims(1)[0] != dims[axis]) {
    return invalid_input("scales of dims " + to_text(call.dims(1)) + " for a value of dims " +
                         to_text(dims));
  }
  return Layout{dims[axis], count_of({dims.begin() + axis + 1, dims.end()})};
}

template <typename T>
T quantised(float x, float scale, int64_t zero) {
  const double wide = std::nearbyint(x / scale) + static_cast<double>(zero);
  if (std::isnan(wide)) return static_cast<T>(zero);
  return static_cast<T>(
      std::clamp<double>(wide, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

// precision: the type of the division, where 0 is the type of the scales.
Status check_precision(OpCall& call) {
  const int64_t precision = call.integer("precision", 0);
  if (precision == 0 || precision == 1) return {};
  return invalid_input("precision " + std::to_string(precision));
}

Status quantise_to_nibbles(OpCall& call, const Layout& layout, ElementType type) {
  MANTISSA_RETURN_IF_ERROR(call.make(0, type, call.dims(0)));
  if (call.shapes_only()) return {};
  const bool is_signed = type == ElementType::kInt4;
  auto* out = call.out<uint8_t>(0);
  for (int64_t i = 0; i < count_of(call.dims(0)); ++i) {
    const int64_t place = layout.place(i);
    const int64_t zero = call.has(2) ? from_nibble(call.input(2), place) : 0;
    const float wide = std::nearbyint(call.data<float>(0)[i] / call.data<float>(1)[place]);
    const double number = std::isnan(wide) ? 0 : static_cast<double>(wide);
    const auto bits = static_cast<int>(std::clamp<double>(number + static_cast<double>(zero),
                                                          is_signed ? -8 : 0, is_signed ? 7 : 15));
    out[i / 2] = static_cast<uint8_t>(out[i / 2] | (bits & 15) << (i % 2 == 0 ? 0 : 4));
  }
  return {};
}

Status quantise_linear(OpCall& call) {
  if (call.type(0) != ElementType::kFloat || call.type(1) != ElementType::kFloat) {
    return invalid_input("numbers or scales that are not float");
  }
  MANTISSA_RETURN_IF_ERROR(check_precision(call));
  MANTISSA_ASSIGN(const Layout layout, layout_of(call));
  const int64_t given = call.integer("output_dtype", 0);
  if (given < 0 || given > UINT8_MAX) return invalid_input("an unknown output_dtype");
  const auto named = given == 0 ? ElementType::kUint8 : static_cast<ElementType>(given);
  const ElementType type = call.has(2) ? call.type(2) : named;
  if (element_bits(type) == 4) return quantise_to_nibbles(call, layout, type);
  return with_type(QuantisedTypes(), type, [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, type, call.dims(0)));
    if (call.shapes_only()) return {};
    const float* in = call.data<float>(0);
    for (int64_t i = 0; i < count_of(call.dims(0)); ++i) {
      const int64_t place = layout.place(i);
      const int64_t zero = call.has(2) ? static_cast<int64_t>(call.data<T>(2)[place]) : 0;
      call.out<T>(0)[i] = quantised<T>(in[i], call.data<float>(1)[place], zero);
    }
    return {};
  });
}

Status dequantise_linear(OpCall& call) {
  if (call.type(1) != ElementType::kFloat) return invalid_input("scales that are not float");
  const int64_t named = call.integer("output_dtype", 0);
  if (named != 0 && named != static_cast<int64_t>(ElementType::kFloat)) {
    return invalid_input("an output_dtype other than float");
  }
  if (call.has(2) && call.type(2) != call.type(0)) {
    return invalid_input("zero points of another type than the numbers");
  }
  MANTISSA_ASSIGN(const Layout layout, layout_of(call));
  const auto finish = [&](auto number_at, auto zero_at) {
    for (int64_t i = 0; i < count_of(call.dims(0)); ++i) {
      const int64_t place = layout.place(i);
      const int64_t zero = call.has(2) ? zero_at(place) : 0;
      call.out<float>(0)[i] = static_cast<float>(number_at(i) - zero) * call.data<float>(1)[place];
    }
  };
  if (element_bits(call.type(0)) == 4) {
    MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, call.dims(0)));
    if (call.shapes_only()) return {};
    finish([&](int64_t i) { return from_nibble(call.input(0), i); },
           [&](int64_t i) { return from_nibble(call.input(2), i); });
    return {};
  }
  return with_type(QuantisedTypes(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, call.dims(0)));
    if (call.shapes_only()) return {};
    finish([&](int64_t i) { return static_cast<int64_t>(call.data<T>(0)[i]); },
           [&](int64_t i) { return static_cast<int64_t>(call.data<T>(2)[i]); });
    return {};
  });
}

// The scale and zero point follow from the numbers, whose range is made to contain 0.
Status dynamic_quantise_linear(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(1));
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kUint8, call.dims(0)));
  MANTISSA_RETURN_IF_ERROR(call.make(1, ElementType::kFloat, {}));
  MANTISSA_RETURN_IF_ERROR(call.make(2, ElementType::kUint8, {}));
  if (call.shapes_only()) return {};
  const std::span<const float> in = numbers<float>(call.input(0));
  float low = 0;
  float high = 0;
  for (const float x : in) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
  const float scale = (high - low) / 255;
  const auto zero = quantised<uint8_t>(0 - low, scale, 0);
  *call.out<float>(1) = scale;
  *call.out<uint8_t>(2) = zero;
  for (size_t i = 0; i < in.size(); ++i) {
    call.out<uint8_t>(0)[i] = quantised<uint8_t>(in[i], scale, zero);
  }
  return {};
}

constexpr OpRow kQuantisationRows[] = {
    {"QuantizeLinear", 10, quantise_linear, {2, 3}, "", 12},
    {"QuantizeLinear", 13, quantise_linear, {2, 3}, "axis", 18},
    {"QuantizeLinear",
     19,
     quantise_linear,
     {2, 3},
     "axis block_size output_dtype precision saturate"},
    {"DequantizeLinear", 10, dequantise_linear, {2, 3}, "", 12},
    {"DequantizeLinear", 13, dequantise_linear, {2, 3}, "axis block_size output_dtype"},
    {"DynamicQuantizeLinear", 11, dynamic_quantise_linear, 1, "", kNewestOpset, 3},
};

}  // namespace

std::span<const OpRow> quantisation_operators() { return kQuantisationRows; }

}  // namespace mantissa::onnx
