// Operators that pick numbers by their places.
#include <algorithm>
#include <numeric>

#include "onnx/evaluate/copy.h"
#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

// Whole numbers of any rank, each a place below `size`, counted from the end if negative.
Result<std::vector<int64_t>> places(OpCall& call, size_t i, int64_t size) {
  MANTISSA_ASSIGN(std::vector<int64_t> result, whole_numbers(call.input(i)));
  for (int64_t& place : result) {
    if (place < -size || place >= size) {
      return invalid_input("place " + std::to_string(place) + " of " + std::to_string(size));
    }
    if (place < 0) place += size;
  }
  return result;
}

Status check_place_type(OpCall& call, size_t i) {
  if (call.type(i) == ElementType::kInt64 || call.type(i) == ElementType::kInt32) return {};
  return invalid_input("places that are no whole numbers");
}

Status gather(OpCall& call) {
  const Dims& from = call.dims(0);
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", 0), call.rank(0)));
  MANTISSA_RETURN_IF_ERROR(check_place_type(call, 1));
  Dims dims(from.begin(), from.begin() + axis);
  dims.insert(dims.end(), call.dims(1).begin(), call.dims(1).end());
  dims.insert(dims.end(), from.begin() + axis + 1, from.end());
  return with_size(call.type(0), [&]<typename U>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    MANTISSA_ASSIGN(const std::vector<int64_t> wanted, places(call, 1, from[axis]));
    const int64_t outer = count_of({from.begin(), from.begin() + axis});
    const int64_t inner = count_of({from.begin() + axis + 1, from.end()});
    U* out = call.out<U>(0);
    for (int64_t o = 0; o < outer; ++o) {
      for (const int64_t place : wanted) {
        out = std::copy_n(call.data<U>(0) + (o * from[axis] + place) * inner, inner, out);
      }
    }
    return {};
  });
}

// Calls function(i, offset) for each number i of a value of dims `dims`. `offset` is its place in a
// value of dims `from`, without `axis`: the caller adds the place along that axis.
template <typename Function>
void walk_elements(const Dims& dims, const Dims& from, int64_t axis, Function function) {
  Dims strides = strides_of(from);
  strides[axis] = 0;
  int64_t i = 0;
  walk(merged({dims, {strides}}), [&](const int64_t* offsets, const int64_t* steps, int64_t count) {
    for (int64_t k = 0; k < count; ++k) function(i++, offsets[0] + k * steps[0]);
  });
}

Status check_elements(OpCall& call, int64_t axis) {
  MANTISSA_RETURN_IF_ERROR(check_place_type(call, 1));
  bool fits = call.rank(0) == call.rank(1);
  for (int64_t d = 0; fits && d < call.rank(0); ++d) {
    fits = d == axis || call.dims(1)[d] <= call.dims(0)[d];
  }
  if (fits) return {};
  return invalid_input("places of dims " + to_text(call.dims(1)) + " in a value of dims " +
                       to_text(call.dims(0)));
}

Status gather_elements(OpCall& call) {
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", 0), call.rank(0)));
  MANTISSA_RETURN_IF_ERROR(check_elements(call, axis));
  return with_size(call.type(0), [&]<typename U>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), call.dims(1)));
    if (call.shapes_only()) return {};
    MANTISSA_ASSIGN(const std::vector<int64_t> wanted, places(call, 1, call.dims(0)[axis]));
    const int64_t stride = strides_of(call.dims(0))[axis];
    walk_elements(call.dims(1), call.dims(0), axis, [&](int64_t i, int64_t offset) {
      call.out<U>(0)[i] = call.data<U>(0)[offset + wanted[i] * stride];
    });
    return {};
  });
}

// A number that goes where one is already: ScatterElements and ScatterND, by `reduction`.
template <typename T>
void put(const std::string& reduction, T number, T& out) {
  if (reduction == "add") out = static_cast<T>(out + number);
  if (reduction == "mul") out = static_cast<T>(out * number);
  if (reduction == "max") out = std::max(out, number);
  if (reduction == "min") out = std::min(out, number);
  if (reduction == "none") out = number;
}

using ScatterTypes = Types<float, double, uint8_t, int32_t, int64_t, bool>;

Result<std::string> reduction_of(OpCall& call) {
  std::string reduction = call.text("reduction", "none");
  const bool real = call.type(0) == ElementType::kFloat || call.type(0) == ElementType::kDouble;
  for (const char* name : {"none", "add", "mul", "max", "min"}) {
    if (reduction == name && (real || reduction == "none")) return reduction;
  }
  return invalid_input("reduction '" + reduction + "'");
}

Status scatter_elements(OpCall& call) {
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", 0), call.rank(0)));
  MANTISSA_RETURN_IF_ERROR(check_elements(call, axis));
  MANTISSA_ASSIGN(const std::string reduction, reduction_of(call));
  if (call.dims(1) != call.dims(2) || call.type(0) != call.type(2)) {
    return invalid_input("updates of other dims or another type");
  }
  return with_type(ScatterTypes(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), call.dims(0)));
    if (call.shapes_only()) return {};
    std::copy_n(call.data<T>(0), count_of(call.dims(0)), call.out<T>(0));
    MANTISSA_ASSIGN(const std::vector<int64_t> wanted, places(call, 1, call.dims(0)[axis]));
    const int64_t stride = strides_of(call.dims(0))[axis];
    walk_elements(call.dims(1), call.dims(0), axis, [&](int64_t i, int64_t offset) {
      put(reduction, call.data<T>(2)[i], call.out<T>(0)[offset + wanted[i] * stride]);
    });
    return {};
  });
}

// The offsets into `from` that rows of `depth` places each say, counted from dimension `batch` on.
Result<std::vector<int64_t>> row_offsets(OpCall& call, const Dims& from, int64_t batch,
                                         int64_t depth) {
  MANTISSA_ASSIGN(const std::vector<int64_t> given, whole_numbers(call.input(1)));
  const Dims strides = strides_of(from);
  std::vector<int64_t> offsets;
  for (size_t row = 0; row + depth <= given.size() && depth > 0; row += depth) {
    int64_t offset = 0;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t size = from[batch + d];
      const int64_t place = given[row + d];
      if (place < -size || place >= size) {
        return invalid_input("place " + std::to_string(place) + " of " + std::to_string(size));
      }
      offset += (place < 0 ? place + size : place) * strides[batch + d];
    }
    offsets.push_back(offset);
  }
  return offsets;
}

Status gather_nd(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(check_place_type(call, 1));
  const int64_t batch = call.integer("batch_dims", 0);
  const Dims& from = call.dims(0);
  const Dims& rows = call.dims(1);
  if (batch < 0 || batch >= std::min(call.rank(0), call.rank(1)) || rows.back() < 1 ||
      batch + rows.back() > call.rank(0) ||
      !std::equal(from.begin(), from.begin() + batch, rows.begin())) {
    return invalid_input("places of dims " + to_text(rows) + " in a value of dims " +
                         to_text(from));
  }
  const int64_t depth = rows.back();
  Dims dims(rows.begin(), rows.end() - 1);
  dims.insert(dims.end(), from.begin() + batch + depth, from.end());
  return with_size(call.type(0), [&]<typename U>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    MANTISSA_ASSIGN(const std::vector<int64_t> offsets, row_offsets(call, from, batch, depth));
    const int64_t slice = count_of({from.begin() + batch + depth, from.end()});
    const int64_t whole = count_of({from.begin() + batch, from.end()});
    const auto per_batch = static_cast<size_t>(count_of({rows.begin() + batch, rows.end() - 1}));
    U* out = call.out<U>(0);
    for (size_t i = 0; i < offsets.size(); ++i) {
      const auto b = static_cast<int64_t>(i / per_batch);
      out = std::copy_n(call.data<U>(0) + b * whole + offsets[i], slice, out);
    }
    return {};
  });
}

Status scatter_nd(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(check_place_type(call, 1));
  MANTISSA_ASSIGN(const std::string reduction, reduction_of(call));
  const Dims& from = call.dims(0);
  const Dims& rows = call.dims(1);
  if (rows.empty() || rows.back() < 1 || rows.back() > call.rank(0)) {
    return invalid_input("places of dims " + to_text(rows) + " in a value of dims " +
                         to_text(from));
  }
  const int64_t depth = rows.back();
  Dims wanted(rows.begin(), rows.end() - 1);
  wanted.insert(wanted.end(), from.begin() + depth, from.end());
  if (call.dims(2) != wanted || call.type(0) != call.type(2)) {
    return invalid_input("updates of other dims or another type");
  }
  return with_type(ScatterTypes(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), from));
    if (call.shapes_only()) return {};
    std::copy_n(call.data<T>(0), count_of(from), call.out<T>(0));
    MANTISSA_ASSIGN(const std::vector<int64_t> offsets, row_offsets(call, from, 0, depth));
    const int64_t slice = count_of({from.begin() + depth, from.end()});
    const T* update = call.data<T>(2);
    for (const int64_t offset : offsets) {
      for (int64_t i = 0; i < slice; ++i) put(reduction, *update++, call.out<T>(0)[offset + i]);
    }
    return {};
  });
}

Status one_hot(OpCall& call) {
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", -1), call.rank(0) + 1));
  if (!call.known(1)) return call.not_determined();
  if (count_of(call.dims(1)) != 1 || call.dims(2) != Dims{2}) {
    return invalid_input("a depth or values of other dims");
  }
  int64_t depth = 0;
  MANTISSA_RETURN_IF_ERROR(with_type(Numbers(), call.type(1), [&]<typename T>() -> Status {
    const auto number = static_cast<double>(*call.data<T>(1));
    if (!(number >= 0 && number < 1e12)) return invalid_input("a depth below 0, or huge");
    depth = static_cast<int64_t>(number);
    return {};
  }));
  Dims dims = call.dims(0);
  dims.insert(dims.begin() + axis, depth);
  return with_type(Numbers(), call.type(0), [&]<typename I>() -> Status {
    return with_size(call.type(2), [&]<typename U>() -> Status {
      MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(2), dims));
      if (call.shapes_only()) return {};
      const int64_t inner = count_of({dims.begin() + axis + 1, dims.end()});
      U* out = call.out<U>(0);
      std::fill_n(out, count_of(dims), call.data<U>(2)[0]);
      for (int64_t i = 0; i < count_of(call.dims(0)); ++i) {
        auto place = static_cast<double>(call.data<I>(0)[i]);
        if (place < 0) place += static_cast<double>(depth);
        if (!(place >= 0 && place < static_cast<double>(depth))) continue;
        const int64_t row = i / inner * depth + static_cast<int64_t>(place);
        out[row * inner + i % inner] = call.data<U>(2)[1];
      }
      return {};
    });
  });
}

Status non_zero(OpCall& call) {
  if (!call.known(0)) return call.not_determined();
  return with_type(AllTypes(), call.type(0), [&]<typename T>() -> Status {
    const int64_t count = count_of(call.dims(0));
    const T* in = call.data<T>(0);
    const int64_t found = count - std::count(in, in + count, T{0});
    MANTISSA_RETURN_IF_ERROR(call.make_known(0, ElementType::kInt64, {call.rank(0), found}));
    const Dims strides = strides_of(call.dims(0));
    int64_t column = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (in[i] == T{0}) continue;
      for (int64_t d = 0; d < call.rank(0); ++d) {
        call.out<int64_t>(0)[d * found + column] = i / strides[d] % call.dims(0)[d];
      }
      ++column;
    }
    return {};
  });
}

Status compress(OpCall& call) {
  if (!call.known(1)) return call.not_determined();
  if (call.type(1) != ElementType::kBool) return invalid_input("a condition that is not bool");
  Dims from = call.dims(0);
  if (!call.has_attribute("axis")) from = {count_of(from)};
  MANTISSA_ASSIGN(const int64_t axis,
                  call.axis(call.integer("axis", 0), static_cast<int64_t>(from.size())));
  std::vector<int64_t> kept;
  const int64_t conditions = std::min(count_of(call.dims(1)), from[axis]);
  for (int64_t i = 0; i < conditions; ++i) {
    if (call.data<bool>(1)[i]) kept.push_back(i);
  }
  Dims dims = from;
  dims[axis] = static_cast<int64_t>(kept.size());
  return with_size(call.type(0), [&]<typename U>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    const int64_t outer = count_of({from.begin(), from.begin() + axis});
    const int64_t inner = count_of({from.begin() + axis + 1, from.end()});
    U* out = call.out<U>(0);
    for (int64_t o = 0; o < outer; ++o) {
      for (const int64_t place : kept) {
        out = std::copy_n(call.data<U>(0) + (o * from[axis] + place) * inner, inner, out);
      }
    }
    return {};
  });
}

Status trilu(OpCall& call) {
  const bool upper = call.integer("upper", 1) != 0;
  int64_t k = 0;
  if (call.has(1)) {
    if (!call.known(1)) {
      k = 0;
    } else {
      MANTISSA_ASSIGN(const std::vector<int64_t> given, call.whole(1));
      if (given.size() != 1) return invalid_input("k is no single number");
      k = std::clamp<int64_t>(given[0], -(int64_t{1} << 40), int64_t{1} << 40);
    }
  }
  if (call.rank(0) < 2) return invalid_input("a value of rank below 2");
  return with_size(call.type(0), [&]<typename U>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), call.dims(0)));
    if (call.shapes_only()) return {};
    const int64_t columns = call.dims(0).back();
    const int64_t rows = *(call.dims(0).end() - 2);
    for (int64_t i = 0; i < count_of(call.dims(0)); ++i) {
      const int64_t diagonal = i % columns - i / columns % rows;
      if (upper ? diagonal >= k : diagonal <= k) call.out<U>(0)[i] = call.data<U>(0)[i];
    }
    return {};
  });
}

Status top_k(OpCall& call) {
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", -1), call.rank(0)));
  const bool largest = call.integer("largest", 1) != 0;
  MANTISSA_ASSIGN(const std::vector<int64_t> given, call.whole(1));
  const Dims& from = call.dims(0);
  if (given.size() != 1 || given[0] < 0 || given[0] > from[axis]) {
    return invalid_input("k is no number from 0 to the size of the axis");
  }
  const int64_t k = given[0];
  Dims dims = from;
  dims[axis] = k;
  return with_type(Numbers(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    MANTISSA_RETURN_IF_ERROR(call.make(1, ElementType::kInt64, dims));
    if (call.shapes_only()) return {};
    const int64_t outer = count_of({from.begin(), from.begin() + axis});
    const int64_t inner = count_of({from.begin() + axis + 1, from.end()});
    std::vector<int64_t> order(from[axis]);
    for (int64_t row = 0; row < outer * inner; ++row) {
      const T* in = call.data<T>(0) + row / inner * from[axis] * inner + row % inner;
      const int64_t out = row / inner * k * inner + row % inner;
      std::iota(order.begin(), order.end(), 0);
      // The first of equal numbers comes first.
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return largest ? in[a * inner] > in[b * inner] : in[a * inner] < in[b * inner];
      });
      for (int64_t i = 0; i < k; ++i) {
        call.out<T>(0)[out + i * inner] = in[order[i] * inner];
        call.out<int64_t>(1)[out + i * inner] = order[i];
      }
    }
    return {};
  });
}

constexpr OpRow kIndexRows[] = {
    {"Gather", 1, gather, 2, "axis"},
    {"GatherElements", 11, gather_elements, 2, "axis"},
    {"GatherND", 11, gather_nd, 2, "batch_dims"},
    {"Scatter", 9, scatter_elements, 3, "axis", 10},
    {"ScatterElements", 11, scatter_elements, 3, "axis reduction"},
    {"ScatterND", 11, scatter_nd, 3, "reduction"},
    {"OneHot", 9, one_hot, 3, "axis"},
    {"NonZero", 9, non_zero},
    {"Compress", 9, compress, 2, "axis"},
    {"Trilu", 14, trilu, {1, 2}, "upper"},
    {"TopK", 10, top_k, 2, "axis largest sorted", kNewestOpset, 2},
};

}  // namespace

std::span<const OpRow> index_operators() { return kIndexRows; }

}  // namespace mantissa::onnx
