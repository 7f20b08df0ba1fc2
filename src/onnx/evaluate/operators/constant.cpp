// Operators that make values of nothing, or of a shape.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

Status make_tensor(OpCall& call, const TensorData& value) {
  MANTISSA_ASSIGN(const TensorData numbers, aligned(value));
  MANTISSA_RETURN_IF_ERROR(call.make_known(0, ElementType::kFloat, {0}));
  call.output(0) = numbers;
  return {};
}

template <typename T>
Status make_list(OpCall& call, const std::vector<T>& list, const Dims& dims) {
  MANTISSA_RETURN_IF_ERROR(call.make_known(0, element_type_of<T>(), dims));
  if (!list.empty()) std::memcpy(call.out<T>(0), list.data(), list.size() * sizeof(T));
  return {};
}

Status constant(OpCall& call) {
  if (const TensorData* value = call.tensor("value")) return make_tensor(call, *value);
  if (call.has_attribute("value_float")) {
    return make_list<float>(call, {call.real("value_float", 0)}, {});
  }
  if (call.has_attribute("value_int")) {
    return make_list<int64_t>(call, {call.integer("value_int", 0)}, {});
  }
  if (call.has_attribute("value_floats")) {
    const std::vector<float> list = call.reals("value_floats");
    return make_list(call, list, {static_cast<int64_t>(list.size())});
  }
  if (call.has_attribute("value_ints")) {
    const std::vector<int64_t> list = call.integers("value_ints");
    return make_list(call, list, {static_cast<int64_t>(list.size())});
  }
  return invalid_input("no value that is supported");
}

Status constant_of_shape(OpCall& call) {
  MANTISSA_ASSIGN(const Dims dims, call.whole(0));
  const TensorData* value = call.tensor("value");
  if (value != nullptr && count_of(value->dims) != 1) {
    return invalid_input("a value that is no single number");
  }
  const ElementType type = value == nullptr ? ElementType::kFloat : value->type;
  const size_t size = static_cast<size_t>(element_bits(type)) / 8;
  if (size == 0) return invalid_input("a value of a type that is not supported");
  MANTISSA_RETURN_IF_ERROR(call.make(0, type, dims));
  if (call.shapes_only() || value == nullptr) return {};
  MANTISSA_ASSIGN(const TensorData number, aligned(*value));
  auto* out = call.out<std::byte>(0);
  for (int64_t i = 0; i < count_of(dims); ++i) {
    std::memcpy(out + static_cast<size_t>(i) * size, number.bytes.data(), size);
  }
  return {};
}

Status range(OpCall& call) {
  for (size_t i = 0; i < 3; ++i) {
    if (call.type(i) != call.type(0) || count_of(call.dims(i)) != 1) {
      return invalid_input("start, limit and step are no single numbers of one type");
    }
    if (!call.known(i)) return call.not_determined();
  }
  using RangeTypes = Types<float, double, int16_t, int32_t, int64_t>;
  return with_type(RangeTypes(), call.type(0), [&]<typename T>() -> Status {
    const T start = *call.data<T>(0);
    const T limit = *call.data<T>(1);
    const T step = *call.data<T>(2);
    const double wanted = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) /
                                    static_cast<double>(step));
    if (step == T{0} || !(wanted < 1e10)) return invalid_input("a range without end");
    const int64_t count = wanted < 0 ? 0 : static_cast<int64_t>(wanted);
    MANTISSA_RETURN_IF_ERROR(call.make_known(0, call.type(0), {count}));
    T* out = call.out<T>(0);
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_integral_v<T>) {
        // The sum is in range, its parts may not be.
        out[i] = static_cast<T>(static_cast<uint64_t>(start) +
                                static_cast<uint64_t>(i) * static_cast<uint64_t>(step));
      } else {
        out[i] = start + static_cast<T>(i) * step;
      }
    }
    return {};
  });
}

Status eye_like(OpCall& call) {
  if (call.rank(0) != 2) return invalid_input("a value of rank other than 2");
  const int64_t given = call.integer("dtype", 0);
  if (given < 0 || given > UINT8_MAX) return invalid_input("an unknown dtype");
  const auto type = call.has_attribute("dtype") ? static_cast<ElementType>(given) : call.type(0);
  const int64_t k = std::clamp<int64_t>(call.integer("k", 0), -INT32_MAX, INT32_MAX);
  return with_type(Numbers(), type, [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, type, call.dims(0)));
    if (call.shapes_only()) return {};
    const int64_t columns = call.dims(0)[1];
    for (int64_t row = 0; row < call.dims(0)[0]; ++row) {
      if (row >= -k && row < columns - k) call.out<T>(0)[row * columns + row + k] = 1;
    }
    return {};
  });
}

// Numbers of a stream by the attribute `seed`: the same in every run.
Status dropout(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(1));
  bool training = false;
  float ratio = call.real("ratio", 0.5f);
  if (call.has(2)) {
    if (!call.known(2)) return call.not_determined();
    if (call.type(2) != ElementType::kBool || count_of(call.dims(2)) != 1) {
      return invalid_input("training_mode is no single truth value");
    }
    training = *call.data<bool>(2);
  }
  if (call.has(1)) {
    MANTISSA_ASSIGN(const std::vector<float> numbers, call.real_numbers(1));
    if (numbers.size() != 1) return invalid_input("a ratio that is no single number");
    ratio = numbers[0];
  }
  const Dims& dims = call.dims(0);
  if (!training || ratio == 0) {
    MANTISSA_RETURN_IF_ERROR(call.forward(0, 0, dims));
  } else {
    MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  }
  const bool old = call.opset() < 10;  // whose mask has the type of the input
  MANTISSA_RETURN_IF_ERROR(call.make(1, old ? ElementType::kFloat : ElementType::kBool, dims));
  if (call.shapes_only()) return {};
  const auto seed = static_cast<uint64_t>(call.integer("seed", 0));
  for (int64_t i = 0; i < count_of(dims); ++i) {
    bool kept = true;
    if (training && ratio != 0) {
      const uint64_t bits = random_bits(seed, RandomStream::kDropout, 0, static_cast<uint64_t>(i));
      kept = std::ldexp(static_cast<double>(bits >> 11), -53) >= ratio;
      call.out<float>(0)[i] = kept ? call.data<float>(0)[i] / (1 - ratio) : 0;
    }
    if (!call.wants(1)) continue;
    if (old) {
      call.out<float>(1)[i] = kept ? 1.0f : 0.0f;
    } else {
      call.out<bool>(1)[i] = kept;
    }
  }
  return {};
}

constexpr OpRow kConstantRows[] = {
    {"Constant", 1, constant, 0, "value value_float value_int value_floats value_ints"},
    {"ConstantOfShape", 9, constant_of_shape, 1, "value"},
    {"Range", 11, range, 3, "", 26},
    {"Range", 27, range, 3, "stash_type"},
    {"EyeLike", 9, eye_like, 1, "dtype k"},
    {"Dropout", 6, dropout, 1, "is_test ratio", 6, 2},
    {"Dropout", 7, dropout, 1, "ratio", 11, 2},
    {"Dropout", 12, dropout, {1, 3}, "seed", kNewestOpset, 2},
};

}  // namespace

std::span<const OpRow> constant_operators() { return kConstantRows; }

}  // namespace mantissa::onnx
