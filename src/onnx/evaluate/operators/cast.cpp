// Converts numbers from one type to another.
#include <cmath>
#include <limits>
#include <type_traits>

#include "onnx/evaluate/halves.h"
#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/operators/quantised/nibbles.h"

namespace mantissa::onnx {
namespace {

// Real numbers lose their fraction; those that do not fit wrap around, by way of 64 bits.
template <typename To, typename From>
To convert(From number) {
  if constexpr (std::is_same_v<To, bool>) {
    return number != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr double kLimit = 9223372036854775808.0;
    const double real = std::trunc(static_cast<double>(number));
    if (real >= kLimit && real < 2 * kLimit) return static_cast<To>(static_cast<uint64_t>(real));
    if (!(real >= -kLimit && real < kLimit)) {
      return static_cast<To>(std::numeric_limits<int64_t>::min());
    }
    return static_cast<To>(static_cast<int64_t>(real));
  } else {
    return static_cast<To>(number);
  }
}

float widen(ElementType type, uint16_t bits) {
  return type == ElementType::kFloat16 ? from_float16(bits) : from_bfloat16(bits);
}

uint16_t narrow(ElementType type, float number) {
  return type == ElementType::kFloat16 ? to_float16(number) : to_bfloat16(number);
}

template <typename Function>
void for_each_16_bits(const TensorData& tensor, Function function) {
  const auto* in = reinterpret_cast<const uint16_t*>(tensor.bytes.data());
  for (int64_t i = 0; i < count_of(tensor.dims); ++i) function(i, widen(tensor.type, in[i]));
}

Status cast_from_16_bits(OpCall& call, ElementType to) {
  const TensorData& in = call.input(0);
  if (has_16_bits(to)) {
    uint16_t* out = call.out<uint16_t>(0);
    for_each_16_bits(in, [&](int64_t i, float number) { out[i] = narrow(to, number); });
    return {};
  }
  return with_type(AllTypes(), to, [&]<typename T>() -> Status {
    T* out = call.out<T>(0);
    for_each_16_bits(in, [&](int64_t i, float number) { out[i] = convert<T>(number); });
    return {};
  });
}

// Numbers of 4 bits, as numbers of 8, and back.
Result<TensorData> from_nibbles(const TensorData& tensor) {
  const bool is_signed = tensor.type == ElementType::kInt4;
  MANTISSA_ASSIGN(TensorData wide,
                  allocate(is_signed ? ElementType::kInt8 : ElementType::kUint8, tensor.dims));
  auto* out = writable<uint8_t>(wide).data();
  for (int64_t i = 0; i < count_of(tensor.dims); ++i) {
    out[i] = static_cast<uint8_t>(from_nibble(tensor, i));
  }
  return wide;
}

// Whole numbers keep their lowest bits.
Status cast_to_nibbles(OpCall& call, ElementType to) {
  MANTISSA_RETURN_IF_ERROR(call.make(0, to, call.dims(0)));
  if (call.shapes_only()) return {};
  auto* out = call.out<uint8_t>(0);
  const int64_t count = count_of(call.dims(0));
  if (has_16_bits(call.type(0))) {
    for_each_16_bits(call.input(0), [&](int64_t i, float number) {
      put_nibble(out, i, convert<int64_t>(number));
    });
    return {};
  }
  return with_type(AllTypes(), call.type(0), [&]<typename From>() -> Status {
    for (int64_t i = 0; i < count; ++i) put_nibble(out, i, convert<int64_t>(call.data<From>(0)[i]));
    return {};
  });
}

Status cast_to(OpCall& call, ElementType to) {
  const ElementType from = call.type(0);
  if (element_bits(from) == 4 && from != to) {
    MANTISSA_RETURN_IF_ERROR(call.make(0, to, call.dims(0)));
    if (call.shapes_only()) return {};
    EvaluatedValue wide{{}, true, true};
    MANTISSA_ASSIGN(wide.tensor, from_nibbles(call.input(0)));
    OpCall inner(call.node(), call.opset(), false, {&wide}, call.pool());
    MANTISSA_RETURN_IF_ERROR(cast_to(inner, to));
    return call.give(0, std::move(inner.take_outputs()[0]));
  }
  if (element_bits(to) == 4 && from != to) return cast_to_nibbles(call, to);
  for (const ElementType type : {from, to}) {
    if (element_bits(type) < 4) {
      return invalid_input(std::string("numbers of type ") + element_name(type) +
                           " are not supported here");
    }
  }
  if (from == to) return call.forward(0, 0, call.dims(0));
  MANTISSA_RETURN_IF_ERROR(call.make(0, to, call.dims(0)));
  if (call.shapes_only()) return {};
  if (has_16_bits(from)) return cast_from_16_bits(call, to);
  const int64_t count = count_of(call.dims(0));
  return with_type(AllTypes(), from, [&]<typename From>() -> Status {
    const From* in = call.data<From>(0);
    if (has_16_bits(to)) {
      uint16_t* out = call.out<uint16_t>(0);
      for (int64_t i = 0; i < count; ++i) out[i] = narrow(to, static_cast<float>(in[i]));
      return {};
    }
    return with_type(AllTypes(), to, [&]<typename To>() -> Status {
      To* out = call.out<To>(0);
      for (int64_t i = 0; i < count; ++i) out[i] = convert<To>(in[i]);
      return {};
    });
  });
}

Status cast(OpCall& call) {
  const int64_t to = call.integer("to", 0);
  if (to < 0 || to > UINT8_MAX) return invalid_input("an unknown type");
  return cast_to(call, static_cast<ElementType>(to));
}

Status cast_like(OpCall& call) { return cast_to(call, call.type(1)); }

constexpr OpRow kCastRows[] = {
    {"Cast", 6, cast, 1, "to saturate", 23},
    {"Cast", 24, cast, 1, "round_mode saturate to"},
    {"CastLike", 15, cast_like, 2, "saturate", 23},
    {"CastLike", 24, cast_like, 2, "round_mode saturate"},
};

}  // namespace

std::span<const OpRow> cast_operators() { return kCastRows; }

}  // namespace mantissa::onnx
