// Operators that make one number of those along some dimensions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

// Which dimensions go; by an input since operator set 13 (ReduceSum) or 18.
Result<std::vector<bool>> reduced_dims(OpCall& call) {
  MANTISSA_ASSIGN(const std::vector<int64_t> axes, call.whole(1, "axes"));
  const bool nothing = axes.empty() && call.integer("noop_with_empty_axes", 0) != 0;
  std::vector<bool> reduced(call.dims(0).size(), axes.empty() && !nothing);
  for (const int64_t axis : axes) {
    MANTISSA_ASSIGN(const int64_t place, call.axis(axis, call.rank(0)));
    reduced[place] = true;
  }
  return reduced;
}

// Sums are double, so that only the last rounding counts.
template <typename T>
using Sum = std::conditional_t<std::is_floating_point_v<T>, double,
                               std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

// start: of each sum; join: a number joins it; end: the result of a sum over this many numbers.
template <typename List, typename Start, typename Join, typename End>
Status reduce(OpCall& call, Start start, Join join, End end) {
  MANTISSA_ASSIGN(const std::vector<bool> reduced, reduced_dims(call));
  const bool keeps = call.integer("keepdims", 1) != 0;
  Dims kept = call.dims(0);
  Dims dims;
  int64_t each = 1;
  for (size_t d = 0; d < kept.size(); ++d) {
    if (reduced[d]) each *= kept[d];
    if (reduced[d]) kept[d] = 1;
    if (!reduced[d] || keeps) dims.push_back(kept[d]);
  }
  return with_type(List(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    std::vector<Sum<T>> sums(count_of(kept), start.template operator()<T>());
    const Loops loops =
        merged({call.dims(0), {strides_of(call.dims(0)), broadcast_strides(kept, call.dims(0))}});
    walk(loops, [&](const int64_t* offsets, const int64_t* steps, int64_t count) {
      const T* in = call.data<T>(0) + offsets[0];
      Sum<T>* sum = sums.data() + offsets[1];
      if (steps[1] == 0) {
        Sum<T> into = *sum;
        for (int64_t i = 0; i < count; ++i) {
          into = join(into, static_cast<Sum<T>>(in[i * steps[0]]));
        }
        *sum = into;
        return;
      }
      for (int64_t i = 0; i < count; ++i) {
        Sum<T>& into = sum[i * steps[1]];
        into = join(into, static_cast<Sum<T>>(in[i * steps[0]]));
      }
    });
    T* out = call.out<T>(0);
    for (size_t i = 0; i < sums.size(); ++i) out[i] = static_cast<T>(end(sums[i], each));
    return {};
  });
}

constexpr auto start_at_zero = []<typename T>() { return Sum<T>{0}; };
constexpr auto same_sum = [](auto sum, int64_t) { return sum; };
// Sums of whole numbers wrap around.
constexpr auto add_wide = []<typename S>(S sum, S x) -> S {
  if constexpr (std::is_integral_v<S>) {
    return static_cast<S>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(x));
  } else {
    return sum + x;
  }
};
constexpr auto multiply_wide = []<typename S>(S sum, S x) -> S {
  if constexpr (std::is_integral_v<S>) {
    return static_cast<S>(static_cast<uint64_t>(sum) * static_cast<uint64_t>(x));
  } else {
    return sum * x;
  }
};

using ReducedTypes = Types<float, double, int32_t, int64_t, uint32_t, uint64_t, int8_t, uint8_t>;

using ComparedTypes =
    Types<float, double, int32_t, int64_t, uint32_t, uint64_t, int8_t, uint8_t, bool>;

Status reduce_sum(OpCall& call) {
  return reduce<ReducedTypes>(call, start_at_zero, add_wide, same_sum);
}

Status reduce_mean(OpCall& call) {
  return reduce<ReducedTypes>(
      call, start_at_zero, add_wide, []<typename S>(S sum, int64_t each) -> S {
        return each == 0 && std::is_integral_v<S> ? S{0}
                                                  : static_cast<S>(sum / static_cast<S>(each));
      });
}

Status reduce_prod(OpCall& call) {
  return reduce<ReducedTypes>(
      call, []<typename T>() { return Sum<T>{1}; }, multiply_wide, same_sum);
}

Status reduce_max(OpCall& call) {
  return reduce<ComparedTypes>(
      call,
      []<typename T>() {
        return std::is_floating_point_v<T> ? -std::numeric_limits<Sum<T>>::infinity()
                                           : static_cast<Sum<T>>(std::numeric_limits<T>::lowest());
      },
      [](auto sum, auto x) { return sum > x || sum != sum ? sum : x; }, same_sum);
}

Status reduce_min(OpCall& call) {
  return reduce<ComparedTypes>(
      call,
      []<typename T>() {
        return std::is_floating_point_v<T> ? std::numeric_limits<Sum<T>>::infinity()
                                           : static_cast<Sum<T>>(std::numeric_limits<T>::max());
      },
      [](auto sum, auto x) { return sum < x || sum != sum ? sum : x; }, same_sum);
}

Status reduce_l1(OpCall& call) {
  return reduce<ReducedTypes>(
      call, start_at_zero,
      [](auto sum, auto x) { return add_wide(sum, x < 0 ? multiply_wide(x, decltype(x)(-1)) : x); },
      same_sum);
}

constexpr auto add_square = [](auto sum, auto x) { return add_wide(sum, multiply_wide(x, x)); };

Status reduce_sum_square(OpCall& call) {
  return reduce<ReducedTypes>(call, start_at_zero, add_square, same_sum);
}

Status reduce_l2(OpCall& call) {
  return reduce<Floats>(call, start_at_zero, add_square,
                        [](double sum, int64_t) { return std::sqrt(sum); });
}

Status reduce_log_sum(OpCall& call) {
  return reduce<Floats>(call, start_at_zero, add_wide,
                        [](double sum, int64_t) { return std::log(sum); });
}

// The logarithm of e^a + e^b by the larger one, so that no exponential overflows or vanishes.
double log_add_exp(double a, double b) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  if (a == kNothing || b == kNothing) return a == kNothing ? b : a;
  if (a == b) return a + std::log(2.0);  // infinities, too
  return a > b ? a + std::log1p(std::exp(b - a)) : b + std::log1p(std::exp(a - b));
}

Status reduce_log_sum_exp(OpCall& call) {
  return reduce<Floats>(
      call, []<typename T>() { return -std::numeric_limits<Sum<T>>::infinity(); }, log_add_exp,
      same_sum);
}

template <bool kLargest>
Status arg(OpCall& call) {
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", 0), call.rank(0)));
  const bool last = call.integer("select_last_index", 0) != 0;
  const Dims& from = call.dims(0);
  const int64_t size = from[axis];
  Dims dims = from;
  dims[axis] = 1;
  if (call.integer("keepdims", 1) == 0) dims.erase(dims.begin() + axis);
  return with_type(Numbers(), call.type(0), [&]<typename T>() -> Status {
    if (size == 0) return invalid_input("no number to choose from");
    MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kInt64, dims));
    if (call.shapes_only()) return {};
    const int64_t inner = count_of({from.begin() + axis + 1, from.end()});
    for (int64_t o = 0; o < count_of(dims); ++o) {
      const T* in = call.data<T>(0) + o / inner * size * inner + o % inner;
      int64_t best = 0;
      for (int64_t i = 1; i < size; ++i) {
        const T x = kLargest ? in[i * inner] : in[best * inner];
        const T y = kLargest ? in[best * inner] : in[i * inner];
        if (x > y || (last && x == y)) best = i;
      }
      call.out<int64_t>(0)[o] = best;
    }
    return {};
  });
}

// Sums or products of all numbers up to each place.
template <typename Join>
Status accumulate(OpCall& call, int first_sum, Join join) {
  MANTISSA_ASSIGN(const std::vector<int64_t> given, call.whole(1));
  if (given.size() != 1) return invalid_input("an axis that is no single number");
  MANTISSA_ASSIGN(const int64_t axis, call.axis(given[0], call.rank(0)));
  const bool exclusive = call.integer("exclusive", 0) != 0;
  const bool reverse = call.integer("reverse", 0) != 0;
  const Dims& dims = call.dims(0);
  return with_type(ReducedTypes(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only() || count_of(dims) == 0) return {};
    const int64_t inner = count_of({dims.begin() + axis + 1, dims.end()});
    for (int64_t row = 0; row < count_of(dims) / dims[axis]; ++row) {
      const int64_t start = row / inner * dims[axis] * inner + row % inner;
      auto sum = static_cast<Sum<T>>(first_sum);
      for (int64_t i = 0; i < dims[axis]; ++i) {
        const int64_t place = start + (reverse ? dims[axis] - 1 - i : i) * inner;
        const Sum<T> before = sum;
        sum = join(sum, static_cast<Sum<T>>(call.data<T>(0)[place]));
        call.out<T>(0)[place] = static_cast<T>(exclusive ? before : sum);
      }
    }
    return {};
  });
}

Status cum_sum(OpCall& call) { return accumulate(call, 0, add_wide); }
Status cum_prod(OpCall& call) { return accumulate(call, 1, multiply_wide); }

// Axes are an attribute up to a version, then an input.
#define MANTISSA_REDUCTION(name, by_input, function)                  \
  {name, 1, function, 1, "axes keepdims", (by_input)-1}, {            \
    name, by_input, function, {1, 2}, "keepdims noop_with_empty_axes" \
  }

constexpr OpRow kReductionRows[] = {
    MANTISSA_REDUCTION("ReduceSum", 13, reduce_sum),
    MANTISSA_REDUCTION("ReduceMean", 18, reduce_mean),
    MANTISSA_REDUCTION("ReduceProd", 18, reduce_prod),
    MANTISSA_REDUCTION("ReduceMax", 18, reduce_max),
    MANTISSA_REDUCTION("ReduceMin", 18, reduce_min),
    MANTISSA_REDUCTION("ReduceL1", 18, reduce_l1),
    MANTISSA_REDUCTION("ReduceL2", 18, reduce_l2),
    MANTISSA_REDUCTION("ReduceSumSquare", 18, reduce_sum_square),
    MANTISSA_REDUCTION("ReduceLogSum", 18, reduce_log_sum),
    MANTISSA_REDUCTION("ReduceLogSumExp", 18, reduce_log_sum_exp),
    {"ArgMax", 1, arg<true>, 1, "axis keepdims select_last_index"},
    {"ArgMin", 1, arg<false>, 1, "axis keepdims select_last_index"},
    {"CumSum", 11, cum_sum, 2, "exclusive reverse"},
    {"CumProd", 26, cum_prod, 2, "exclusive reverse"},
};
#undef MANTISSA_REDUCTION

}  // namespace

std::span<const OpRow> reduction_operators() { return kReductionRows; }

}  // namespace mantissa::onnx
