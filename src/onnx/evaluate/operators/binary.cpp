// Operators of two or more values, number by number, which broadcast.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/operators/pairs.h"

namespace mantissa::onnx {
namespace {

// Operator sets before 7 broadcast by attribute: the second value's dims lie at `axis` of the
// first.
Result<Dims> second_dims(OpCall& call) {
  Dims dims = call.dims(1);
  if (call.opset() >= 7 || call.integer("broadcast", 0) == 0 || !call.has_attribute("axis")) {
    return dims;
  }
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", 0), call.rank(0)));
  while (axis + static_cast<int64_t>(dims.size()) < call.rank(0)) dims.push_back(1);
  return dims;
}

template <typename List, typename Out, auto kFunction>
Status pairwise(OpCall& call) {
  if (call.type(0) != call.type(1)) return invalid_input("inputs of different types");
  return with_type(List(), call.type(0), [&]<typename T>() -> Status {
    using Number = std::conditional_t<std::is_void_v<Out>, T, Out>;
    MANTISSA_ASSIGN(const Dims second, second_dims(call));
    MANTISSA_ASSIGN(const Dims dims, broadcast(call.dims(0), second));
    MANTISSA_RETURN_IF_ERROR(call.make(0, element_type_of<Number>(), dims));
    if (call.shapes_only()) return {};
    combine(call.dims(0), call.data<T>(0), second, call.data<T>(1), dims, call.out<Number>(0),
            kFunction);
    return {};
  });
}

// Whole numbers wrap around, like unsigned types.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;

#define MANTISSA_WRAPPING(name, operator)                                                      \
  constexpr auto name = []<typename T>(T a, T b) -> T {                                        \
    if constexpr (std::is_integral_v<T>) {                                                     \
      return static_cast<T>(static_cast<Wrapping<T>>(a) operator static_cast<Wrapping<T>>(b)); \
    } else {                                                                                   \
      return a operator b;                                                                     \
    }                                                                                          \
  }
MANTISSA_WRAPPING(add, +);
MANTISSA_WRAPPING(subtract, -);
MANTISSA_WRAPPING(times, *);
#undef MANTISSA_WRAPPING

// A whole number divided by 0 has no quotient; who calls has refused those.
constexpr auto divide = []<typename T>(T a, T b) -> T {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return subtract(T{0}, a);
    }
    return static_cast<T>(a / b);
  } else {
    return a / b;
  }
};

// The remainder has the divisor's sign, as in Python.
constexpr auto modulo = []<typename T>(T a, T b) -> T {
  if constexpr (std::is_floating_point_v<T>) {
    const T rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  } else {
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
      const T rest = static_cast<T>(a % b);
      return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    }
    return static_cast<T>(a % b);
  }
};

// The remainder has the dividend's sign, as in C.
constexpr auto remainder = []<typename T>(T a, T b) -> T {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};

Status check_divisors(OpCall& call) {
  if (call.shapes_only()) return {};
  return with_type(Numbers(), call.type(1), [&]<typename T>() -> Status {
    if constexpr (std::is_integral_v<T>) {
      for (const T number : numbers<T>(call.input(1))) {
        if (number == 0) return invalid_input("whole numbers are divided by 0");
      }
    }
    return {};
  });
}

Status div(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(check_divisors(call));
  return pairwise<Numbers, void, divide>(call);
}

Status mod(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(check_divisors(call));
  if (call.integer("fmod", 0) != 0) return pairwise<Numbers, void, remainder>(call);
  return pairwise<Numbers, void, modulo>(call);
}

constexpr auto larger = []<typename T>(T a, T b) -> T { return a > b || a != a ? a : b; };
constexpr auto smaller = []<typename T>(T a, T b) -> T { return a < b || a != a ? a : b; };
constexpr auto equal = [](auto a, auto b) { return a == b; };
constexpr auto less = [](auto a, auto b) { return a < b; };
constexpr auto greater = [](auto a, auto b) { return a > b; };
constexpr auto less_or_equal = [](auto a, auto b) { return a <= b; };
constexpr auto greater_or_equal = [](auto a, auto b) { return a >= b; };
constexpr auto and_of = [](bool a, bool b) { return a && b; };
constexpr auto either = [](bool a, bool b) { return a || b; };
constexpr auto one_of = [](bool a, bool b) { return a != b; };

// A real number as another type. A number out of range becomes the nearest possible one.
template <typename T>
T bounded(double number) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(number);
  } else {
    if (!(number > static_cast<double>(std::numeric_limits<T>::min()))) {
      return std::isnan(number) ? T{0} : std::numeric_limits<T>::min();
    }
    if (number >= static_cast<double>(std::numeric_limits<T>::max())) {
      return std::numeric_limits<T>::max();
    }
    return static_cast<T>(number);
  }
}

template <typename T, typename E>
T power(T base, E exponent) {
  if (exponent == E{2}) return times(base, base);
  if constexpr (std::is_same_v<T, float> && std::is_same_v<E, float>) {
    return std::pow(base, exponent);
  } else {
    return bounded<T>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
}

Status pow(OpCall& call) {
  return with_type(Numbers(), call.type(0), [&]<typename T>() -> Status {
    return with_type(Numbers(), call.type(1), [&]<typename E>() -> Status {
      MANTISSA_ASSIGN(const Dims second, second_dims(call));
      MANTISSA_ASSIGN(const Dims dims, broadcast(call.dims(0), second));
      MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
      if (call.shapes_only()) return {};
      combine(call.dims(0), call.data<T>(0), second, call.data<E>(1), dims, call.out<T>(0),
              power<T, E>);
      return {};
    });
  });
}

Status prelu(OpCall& call) {
  // Before operator set 7 the slopes were one for each channel, whatever follows it.
  Dims slopes = call.dims(1);
  if (call.opset() < 7 && slopes.size() == 1 && slopes[0] != 1) {
    while (static_cast<int64_t>(slopes.size()) < call.rank(0) - 1) slopes.push_back(1);
  }
  MANTISSA_ASSIGN(const Dims dims, broadcast(call.dims(0), slopes));
  if (dims != call.dims(0)) return invalid_input("slopes of dims " + to_text(slopes));
  if (call.type(0) != call.type(1)) return invalid_input("inputs of different types");
  return with_type(SignedNumbers(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    combine(dims, call.data<T>(0), slopes, call.data<T>(1), dims, call.out<T>(0),
            [](T x, T slope) { return x < 0 ? times(slope, x) : x; });
    return {};
  });
}

// Max, Min, Sum, Mean of any number of values: the first is copied, the others join it.
template <typename List, auto kFunction>
Status fold(OpCall& call) {
  Dims dims = call.dims(0);
  for (size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has(i) || call.type(i) != call.type(0)) {
      return invalid_input("inputs of different types");
    }
    MANTISSA_ASSIGN(dims, broadcast(dims, call.dims(i)));
  }
  return with_type(List(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    T* out = call.out<T>(0);
    combine(dims, out, call.dims(0), call.data<T>(0), dims, out, [](T, T first) { return first; });
    for (size_t i = 1; i < call.input_count(); ++i) {
      combine(dims, out, call.dims(i), call.data<T>(i), dims, out, kFunction);
    }
    return {};
  });
}

Status mean(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR((fold<Floats, add>(call)));
  if (call.shapes_only()) return {};
  return with_type(Floats(), call.type(0), [&]<typename T>() -> Status {
    for (T& number : writable<T>(call.output(0))) number /= static_cast<T>(call.input_count());
    return {};
  });
}

Status where(OpCall& call) {
  if (call.type(0) != ElementType::kBool) return invalid_input("a condition that is not bool");
  if (call.type(1) != call.type(2)) return invalid_input("inputs of different types");
  MANTISSA_ASSIGN(Dims dims, broadcast(call.dims(0), call.dims(1)));
  MANTISSA_ASSIGN(dims, broadcast(dims, call.dims(2)));
  return with_type(AllTypes(), call.type(1), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(1), dims));
    if (call.shapes_only()) return {};
    T* out = call.out<T>(0);
    const Loops loops =
        merged({dims,
                {broadcast_strides(call.dims(0), dims), broadcast_strides(call.dims(1), dims),
                 broadcast_strides(call.dims(2), dims)}});
    walk(loops, [&](const int64_t* offsets, const int64_t* steps, int64_t count) {
      const bool* condition = call.data<bool>(0) + offsets[0];
      const T* x = call.data<T>(1) + offsets[1];
      const T* y = call.data<T>(2) + offsets[2];
      for (int64_t i = 0; i < count; ++i) {
        *out++ = condition[i * steps[0]] ? x[i * steps[1]] : y[i * steps[2]];
      }
    });
    return {};
  });
}

// The first value times its logistic function, and times the second.
Status swi_glu(OpCall& call) {
  const float alpha = call.real("alpha", 1.0f);
  if (call.type(0) != call.type(1) || call.dims(0) != call.dims(1)) {
    return invalid_input("inputs of different types or dims");
  }
  return with_type(Floats(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), call.dims(0)));
    if (call.shapes_only()) return {};
    combine(call.dims(0), call.data<T>(0), call.dims(1), call.data<T>(1), call.dims(0),
            call.out<T>(0), [alpha](T x, T factor) {
              return x / (T{1} + std::exp(-static_cast<T>(alpha) * x)) * factor;
            });
    return {};
  });
}

constexpr const char* kOld = "axis broadcast consumed_inputs";

constexpr OpRow kBinaryRows[] = {
    {"Add", 6, pairwise<Numbers, void, add>, 2, kOld, 6},
    {"Sub", 6, pairwise<Numbers, void, subtract>, 2, kOld, 6},
    {"Mul", 6, pairwise<Numbers, void, times>, 2, kOld, 6},
    {"Div", 6, div, 2, kOld, 6},
    {"Pow", 1, pow, 2, kOld, 6},
    {"Add", 7, pairwise<Numbers, void, add>, 2},
    {"Sub", 7, pairwise<Numbers, void, subtract>, 2},
    {"Mul", 7, pairwise<Numbers, void, times>, 2},
    {"Div", 7, div, 2},
    {"Mod", 10, mod, 2, "fmod"},
    {"Pow", 7, pow, 2},
    {"PRelu", 6, prelu, 2},
    {"SwiGLU", 28, swi_glu, 2, "alpha"},
    {"Equal", 7, pairwise<AllTypes, bool, equal>, 2},
    {"Less", 7, pairwise<Numbers, bool, less>, 2},
    {"Greater", 7, pairwise<Numbers, bool, greater>, 2},
    {"LessOrEqual", 12, pairwise<Numbers, bool, less_or_equal>, 2},
    {"GreaterOrEqual", 12, pairwise<Numbers, bool, greater_or_equal>, 2},
    {"And", 7, pairwise<Booleans, bool, and_of>, 2},
    {"Or", 7, pairwise<Booleans, bool, either>, 2},
    {"Xor", 7, pairwise<Booleans, bool, one_of>, 2},
    {"Max", 6, fold<Numbers, larger>, {1, kMany}},
    {"Min", 6, fold<Numbers, smaller>, {1, kMany}},
    {"Sum", 6, fold<Floats, add>, {1, kMany}},
    {"Mean", 6, mean, {1, kMany}},
    {"Where", 9, where, 3},
};

}  // namespace

std::span<const OpRow> binary_operators() { return kBinaryRows; }

}  // namespace mantissa::onnx
