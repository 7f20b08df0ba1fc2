// Operators on the bits of whole numbers.
#include <algorithm>
#include <cstdint>

#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/operators/pairs.h"

namespace mantissa::onnx {
namespace {

Status bit_shift(OpCall& call) {
  const std::string direction = call.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return invalid_input("a direction that is neither LEFT nor RIGHT");
  }
  if (call.type(0) != call.type(1)) return invalid_input("inputs of different types");
  return with_type(Integers(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_ASSIGN(const Dims dims, broadcast(call.dims(0), call.dims(1)));
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    const bool left = direction == "LEFT";
    combine(call.dims(0), call.data<T>(0), call.dims(1), call.data<T>(1), dims, call.out<T>(0),
            [left](T x, T bits) -> T {
              constexpr auto kWidth = static_cast<T>(sizeof(T) * 8);
              if (bits < T{0} || bits >= kWidth)
                return left || x >= T{0} ? T{0} : static_cast<T>(-1);
              return static_cast<T>(left ? static_cast<uint64_t>(x) << bits : x >> bits);
            });
    return {};
  });
}

template <auto kFunction>
Status bitwise(OpCall& call) {
  if (call.type(0) != call.type(1)) return invalid_input("inputs of different types");
  return with_type(Integers(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_ASSIGN(const Dims dims, broadcast(call.dims(0), call.dims(1)));
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    combine(call.dims(0), call.data<T>(0), call.dims(1), call.data<T>(1), dims, call.out<T>(0),
            [](T a, T b) { return static_cast<T>(kFunction(a, b)); });
    return {};
  });
}

constexpr auto bits_of_both = [](auto a, auto b) { return a & b; };
constexpr auto bits_of_either = [](auto a, auto b) { return a | b; };
constexpr auto bits_of_one = [](auto a, auto b) { return a ^ b; };

Status bitwise_not(OpCall& call) {
  return with_type(Integers(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), call.dims(0)));
    if (call.shapes_only()) return {};
    const T* in = call.data<T>(0);
    std::transform(in, in + count_of(call.dims(0)), call.out<T>(0),
                   [](T x) { return static_cast<T>(~x); });
    return {};
  });
}

constexpr OpRow kBitRows[] = {
    {"BitShift", 11, bit_shift, 2, "direction"},
    {"BitwiseAnd", 18, bitwise<bits_of_both>, 2},
    {"BitwiseOr", 18, bitwise<bits_of_either>, 2},
    {"BitwiseXor", 18, bitwise<bits_of_one>, 2},
    {"BitwiseNot", 18, bitwise_not},
};

}  // namespace

std::span<const OpRow> bit_operators() { return kBitRows; }

}  // namespace mantissa::onnx
