// Operators of one number each.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

// Calls with fewer numbers are not worth handing out.
constexpr int64_t kChunk = 1 << 15;

template <typename List, typename Function>
Status apply(OpCall& call, Function function) {
  return with_type(List(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), call.dims(0)));
    if (call.shapes_only()) return {};
    const T* in = call.data<T>(0);
    T* out = call.out<T>(0);
    const int64_t count = count_of(call.dims(0));
    call.pool().parallel_for((count + kChunk - 1) / kChunk, [&](int64_t chunk, int) {
      const int64_t end = std::min(count, (chunk + 1) * kChunk);
      for (int64_t i = chunk * kChunk; i < end; ++i) out[i] = static_cast<T>(function(in[i]));
    });
    return {};
  });
}

// A function of one number without attributes.
template <typename List, auto kFunction>
Status plain(OpCall& call) {
  return apply<List>(call, [](auto x) { return kFunction(x); });
}

// Whether each number is one of these.
template <typename Predicate>
Status test(OpCall& call, Predicate predicate) {
  return with_type(Floats(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kBool, call.dims(0)));
    if (call.shapes_only()) return {};
    const T* in = call.data<T>(0);
    std::transform(in, in + count_of(call.dims(0)), call.out<bool>(0), predicate);
    return {};
  });
}

// The sign changes modulo 2^bits: the least number stays.
constexpr auto negate = []<typename T>(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
  } else {
    return -x;
  }
};
constexpr auto absolute = []<typename T>(T x) {
  if constexpr (std::is_unsigned_v<T>)
    return x;
  else
    return x < 0 ? negate(x) : (x == 0 ? T{0} : x);
};
constexpr auto opposite = [](bool x) { return !x; };
// NaN stays.
constexpr auto sign_of = []<typename T>(T x) {
  return x > 0 ? T{1} : x == 0 ? T{0} : x < 0 ? static_cast<T>(-1) : x;
};
constexpr auto relu = []<typename T>(T x) { return x < 0 ? T{0} : x; };
constexpr auto logistic = []<typename T>(T x) { return T{1} / (T{1} + std::exp(-x)); };
constexpr auto softplus = []<typename T>(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
};
constexpr auto softsign = []<typename T>(T x) { return x / (T{1} + std::abs(x)); };
constexpr auto reciprocal = []<typename T>(T x) { return T{1} / x; };
constexpr auto hard_swish = []<typename T>(T x) {
  return x * std::clamp(x / T{6} + T{0.5}, T{0}, T{1});
};
constexpr auto mish = []<typename T>(T x) { return x * std::tanh(softplus(x)); };

Status elu(OpCall& call) {
  const float alpha = call.real("alpha", 1.0f);
  return apply<Floats>(call, [=]<typename T>(T x) { return x < 0 ? alpha * std::expm1(x) : x; });
}

Status celu(OpCall& call) {
  const float alpha = call.real("alpha", 1.0f);
  return apply<Floats>(call,
                       [=]<typename T>(T x) { return x < 0 ? alpha * std::expm1(x / alpha) : x; });
}

Status selu(OpCall& call) {
  const float alpha = call.real("alpha", 1.67326319217681884765625f);
  const float gamma = call.real("gamma", 1.05070102214813232421875f);
  return apply<Floats>(call, [=]<typename T>(T x) {
    return gamma * (x > 0 ? x : static_cast<T>(alpha * std::expm1(x)));
  });
}

Status leaky_relu(OpCall& call) {
  const float alpha = call.real("alpha", 0.01f);
  return apply<Floats>(call, [=]<typename T>(T x) { return x < 0 ? alpha * x : x; });
}

Status thresholded_relu(OpCall& call) {
  const float alpha = call.real("alpha", 1.0f);
  return apply<Floats>(call, [=]<typename T>(T x) { return x > alpha ? x : T{0}; });
}

Status hard_sigmoid(OpCall& call) {
  const float alpha = call.real("alpha", 0.2f);
  const float beta = call.real("beta", 0.5f);
  return apply<Floats>(call,
                       [=]<typename T>(T x) { return std::clamp<T>(alpha * x + beta, 0, 1); });
}

Status shrink(OpCall& call) {
  const float bias = call.real("bias", 0.0f);
  const float lambda = call.real("lambd", 0.5f);
  return apply<SignedNumbers>(
      call, [=]<typename T>(T x) { return x < -lambda ? x + bias : (x > lambda ? x - bias : 0); });
}

Status swish(OpCall& call) {
  const float alpha = call.real("alpha", 1.0f);
  return apply<Floats>(call,
                       [=]<typename T>(T x) { return x * logistic(static_cast<T>(alpha) * x); });
}

Status gelu(OpCall& call) {
  const std::string kind = call.text("approximate", "none");
  if (kind != "none" && kind != "tanh") return invalid_input("approximate is '" + kind + "'");
  const bool by_tanh = kind == "tanh";
  return apply<Floats>(call, [=]<typename T>(T x) {
    constexpr T kRootOfTwo = static_cast<T>(1.41421356237309504880);
    constexpr T kRootOfTwoByPi = static_cast<T>(0.79788456080286535588);
    const T inner = by_tanh ? std::tanh(kRootOfTwoByPi * (x + static_cast<T>(0.044715) * x * x * x))
                            : std::erf(x / kRootOfTwo);
    return x * static_cast<T>(0.5) * (T{1} + inner);
  });
}

Status is_inf(OpCall& call) {
  const bool negative = call.integer("detect_negative", 1) != 0;
  const bool positive = call.integer("detect_positive", 1) != 0;
  return test(call, [=](auto x) { return std::isinf(x) && (x < 0 ? negative : positive); });
}

Status is_nan(OpCall& call) {
  return test(call, [](auto x) { return std::isnan(x); });
}

// Operator sets before 11 have the limits as attributes.
Status clip_by_attributes(OpCall& call) {
  const float low = call.real("min", std::numeric_limits<float>::lowest());
  const float high = call.real("max", std::numeric_limits<float>::max());
  return apply<Floats>(call,
                       [=]<typename T>(T x) { return std::min<T>(std::max<T>(x, low), high); });
}

template <typename T>
Result<T> limit(OpCall& call, size_t i, T otherwise) {
  if (!call.has(i)) return otherwise;
  if (count_of(call.dims(i)) != 1 || call.type(i) != call.type(0)) {
    return invalid_input("a limit that is no single number of the input's type");
  }
  return call.shapes_only() ? otherwise : *call.data<T>(i);
}

Status clip(OpCall& call) {
  return with_type(Numbers(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_ASSIGN(const T low, limit(call, 1, std::numeric_limits<T>::lowest()));
    MANTISSA_ASSIGN(const T high, limit(call, 2, std::numeric_limits<T>::max()));
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), call.dims(0)));
    if (call.shapes_only()) return {};
    const T* in = call.data<T>(0);
    T* out = call.out<T>(0);
    const int64_t count = count_of(call.dims(0));
    for (int64_t i = 0; i < count; ++i) out[i] = std::min(std::max(in[i], low), high);
    return {};
  });
}

#define MANTISSA_REAL(name) plain<Floats, [](auto x) { return name(x); }>

constexpr OpRow kUnaryRows[] = {
    {"Abs", 6, plain<Numbers, absolute>},
    {"Neg", 6, plain<SignedNumbers, negate>},
    {"Sign", 9, plain<Numbers, sign_of>},
    {"Relu", 6, plain<SignedNumbers, relu>},
    {"Sqrt", 6, MANTISSA_REAL(std::sqrt)},
    {"Exp", 6, MANTISSA_REAL(std::exp)},
    {"Log", 6, MANTISSA_REAL(std::log)},
    {"Erf", 9, MANTISSA_REAL(std::erf)},
    {"Sin", 7, MANTISSA_REAL(std::sin)},
    {"Cos", 7, MANTISSA_REAL(std::cos)},
    {"Tan", 7, MANTISSA_REAL(std::tan)},
    {"Asin", 7, MANTISSA_REAL(std::asin)},
    {"Acos", 7, MANTISSA_REAL(std::acos)},
    {"Atan", 7, MANTISSA_REAL(std::atan)},
    {"Sinh", 9, MANTISSA_REAL(std::sinh)},
    {"Cosh", 9, MANTISSA_REAL(std::cosh)},
    {"Tanh", 6, MANTISSA_REAL(std::tanh)},
    {"Asinh", 9, MANTISSA_REAL(std::asinh)},
    {"Acosh", 9, MANTISSA_REAL(std::acosh)},
    {"Atanh", 9, MANTISSA_REAL(std::atanh)},
    {"Ceil", 6, MANTISSA_REAL(std::ceil)},
    {"Floor", 6, MANTISSA_REAL(std::floor)},
    {"Round", 11, MANTISSA_REAL(std::nearbyint)},
    {"Sigmoid", 6, plain<Floats, logistic>},
    {"Softplus", 1, plain<Floats, softplus>},
    {"Softsign", 1, plain<Floats, softsign>},
    {"Reciprocal", 6, plain<Floats, reciprocal>},
    {"HardSwish", 14, plain<Floats, hard_swish>},
    {"Mish", 18, plain<Floats, mish>},
    {"Not", 1, plain<Booleans, opposite>},
    {"IsNaN", 9, is_nan},
    {"IsInf", 10, is_inf, 1, "detect_negative detect_positive"},
    {"Elu", 6, elu, 1, "alpha"},
    {"Celu", 12, celu, 1, "alpha"},
    {"Selu", 6, selu, 1, "alpha gamma"},
    {"LeakyRelu", 6, leaky_relu, 1, "alpha"},
    {"ThresholdedRelu", 10, thresholded_relu, 1, "alpha"},
    {"HardSigmoid", 6, hard_sigmoid, 1, "alpha beta"},
    {"Shrink", 9, shrink, 1, "bias lambd"},
    {"Swish", 24, swish, 1, "alpha"},
    {"Gelu", 20, gelu, 1, "approximate"},
    {"Clip", 6, clip_by_attributes, 1, "min max", 10},
    {"Clip", 11, clip, {1, 3}},
};
#undef MANTISSA_REAL

}  // namespace

std::span<const OpRow> unary_operators() { return kUnaryRows; }

}  // namespace mantissa::onnx
