// Operators that cut values, join them or put something around them.
#include <algorithm>
#include <numeric>

#include "onnx/evaluate/copy.h"
#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

Status concat(OpCall& call) {
  const int64_t rank = call.rank(0);
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", 1), rank));
  Dims dims = call.dims(0);
  dims[axis] = 0;
  for (size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has(i) || call.type(i) != call.type(0)) {
      return invalid_input("inputs of different types");
    }
    Dims others = call.dims(i);
    bool fits = call.rank(i) == rank;
    for (int64_t d = 0; fits && d < rank; ++d) fits = d == axis || others[d] == dims[d];
    if (!fits || __builtin_add_overflow(dims[axis], others[axis], &dims[axis])) {
      return invalid_input("dims " + to_text(call.dims(0)) + " and " + to_text(others) +
                           " do not go together");
    }
  }
  return with_size(call.type(0), [&]<typename U>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    const int64_t outer = count_of({dims.begin(), dims.begin() + axis});
    const int64_t row = count_of({dims.begin() + axis, dims.end()});
    U* out = call.out<U>(0);
    for (size_t i = 0; i < call.input_count(); ++i) {
      const int64_t part = outer == 0 ? 0 : count_of(call.dims(i)) / outer;
      for (int64_t o = 0; o < outer; ++o) {
        std::copy_n(call.data<U>(i) + o * part, part, out + o * row);
      }
      out += part;
    }
    return {};
  });
}

Result<std::vector<int64_t>> split_sizes(OpCall& call, int64_t size) {
  if (call.has(1) || call.has_attribute("split")) return call.whole(1, "split");
  const auto parts = static_cast<int64_t>(call.node().outputs.size());
  if (call.integer("num_outputs", parts) != parts) {
    return invalid_input("num_outputs other than there are outputs");
  }
  // If parts are unequal, the last is smaller. Only newer operator sets allow that.
  const int64_t part = (size + parts - 1) / parts;
  std::vector<int64_t> sizes(parts, part);
  sizes.back() = size - part * (parts - 1);
  if (sizes.back() < 0 || (call.opset() < 18 && sizes.back() != part)) {
    return invalid_input(std::to_string(size) + " in " + std::to_string(parts) + " equal parts");
  }
  return sizes;
}

Status split(OpCall& call) {
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", 0), call.rank(0)));
  const Dims& from = call.dims(0);
  MANTISSA_ASSIGN(const std::vector<int64_t> sizes, split_sizes(call, from[axis]));
  int64_t sum = 0;
  bool fits = sizes.size() == call.node().outputs.size();
  for (const int64_t size : sizes) {
    fits = fits && size >= 0 && !__builtin_add_overflow(sum, size, &sum);
  }
  if (!fits || sum != from[axis]) {
    return invalid_input("parts of " + to_text(sizes) + " from dims " + to_text(from));
  }
  return with_size(call.type(0), [&]<typename U>() -> Status {
    const int64_t outer = count_of({from.begin(), from.begin() + axis});
    const int64_t inner = count_of({from.begin() + axis + 1, from.end()});
    int64_t begin = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      Dims dims = from;
      dims[axis] = sizes[i];
      MANTISSA_RETURN_IF_ERROR(call.make(i, call.type(0), dims));
      if (call.shapes_only()) continue;
      for (int64_t o = 0; o < outer; ++o) {
        std::copy_n(call.data<U>(0) + (o * from[axis] + begin) * inner, sizes[i] * inner,
                    call.out<U>(i) + o * sizes[i] * inner);
      }
      begin += sizes[i];
    }
    return {};
  });
}

struct Slices {
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  std::vector<int64_t> axes;
  std::vector<int64_t> steps;
};

Result<Slices> slices_of(OpCall& call) {
  Slices slices;
  MANTISSA_ASSIGN(slices.starts, call.whole(1, "starts"));
  MANTISSA_ASSIGN(slices.ends, call.whole(2, "ends"));
  MANTISSA_ASSIGN(slices.axes, call.whole(3, "axes"));
  const size_t count = slices.starts.size();
  if (call.has(4)) {
    MANTISSA_ASSIGN(slices.steps, call.whole(4));
  } else {
    slices.steps.assign(count, 1);
  }
  if (slices.axes.empty()) {
    slices.axes.resize(count);
    std::iota(slices.axes.begin(), slices.axes.end(), 0);
  }
  if (slices.ends.size() != count || slices.axes.size() != count || slices.steps.size() != count) {
    return invalid_input("starts, ends, axes and steps of different lengths");
  }
  return slices;
}

Status slice(OpCall& call) {
  MANTISSA_ASSIGN(const Slices slices, slices_of(call));
  Dims dims = call.dims(0);
  Dims strides = strides_of(dims);
  const Dims own = strides;
  int64_t start = 0;
  std::vector<bool> seen(dims.size());
  for (size_t i = 0; i < slices.starts.size(); ++i) {
    MANTISSA_ASSIGN(const int64_t axis, call.axis(slices.axes[i], call.rank(0)));
    const int64_t size = call.dims(0)[axis];
    const int64_t step = slices.steps[i];
    if (step == 0 || step == INT64_MIN || seen[axis]) {
      return invalid_input("a step of 0, or an axis twice");
    }
    seen[axis] = true;
    const auto place = [&](int64_t at) {
      if (at < 0) at = std::max(at, -size - 1) + size;
      return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
    };
    const int64_t first = place(slices.starts[i]);
    // The end INT64_MIN with a step below 0 is before the first number.
    const int64_t last = place(slices.ends[i]);
    const int64_t span = step > 0 ? last - first : first - last;
    const int64_t stride = step > 0 ? step : -step;
    dims[axis] = span <= 0 ? 0 : (span - 1) / stride + 1;
    if (dims[axis] == 0) continue;
    start += first * own[axis];
    strides[axis] = dims[axis] == 1 ? 0 : own[axis] * step;
  }
  return copy_strided(call, dims, strides, start);
}

enum class PadMode : uint8_t { kConstant, kReflect, kEdge, kWrap };

Result<PadMode> pad_mode(const std::string& name) {
  if (name == "constant") return PadMode::kConstant;
  if (name == "reflect") return PadMode::kReflect;
  if (name == "edge") return PadMode::kEdge;
  if (name == "wrap") return PadMode::kWrap;
  return invalid_input("mode '" + name + "'");
}

// For each place along a dimension of the output the place of the input, or -1: the constant.
Result<std::vector<int64_t>> pad_places(PadMode mode, int64_t size, int64_t before, int64_t after) {
  const int64_t total = size + before + after;
  std::vector<int64_t> places(std::max<int64_t>(total, 0));
  if (mode != PadMode::kConstant && size == 0 && total > 0) {
    return invalid_input("nothing to pad with");
  }
  for (int64_t i = 0; i < total; ++i) {
    int64_t at = i - before;
    if (at < 0 || at >= size) {
      switch (mode) {
        case PadMode::kConstant:
          at = -1;
          break;
        case PadMode::kEdge:
          at = std::clamp<int64_t>(at, 0, size - 1);
          break;
        case PadMode::kWrap:
          at = (at % size + size) % size;
          break;
        case PadMode::kReflect: {
          const int64_t period = std::max<int64_t>(2 * (size - 1), 1);
          at = (at % period + period) % period;
          if (at >= size) at = period - at;
        }
      }
    }
    places[i] = at;
  }
  return places;
}

// All pads, in the order of dimensions: those before each, then those after each.
Result<std::vector<int64_t>> pads_of(OpCall& call) {
  MANTISSA_ASSIGN(std::vector<int64_t> given, call.whole(1, "pads"));
  std::vector<int64_t> axes;
  if (call.has(3)) {
    MANTISSA_ASSIGN(axes, call.whole(3));
  } else {
    axes.resize(call.dims(0).size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (given.size() != 2 * axes.size()) return invalid_input("pads for another rank");
  const auto rank = static_cast<size_t>(call.rank(0));
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    MANTISSA_ASSIGN(const int64_t axis, call.axis(axes[i], call.rank(0)));
    pads[axis] = given[i];
    pads[axis + rank] = given[i + axes.size()];
  }
  for (const int64_t pad : pads) {
    if (pad < -(int64_t{1} << 40) || pad > int64_t{1} << 40) return invalid_input("pads are huge");
  }
  return pads;
}

template <typename U>
Result<U> pad_value(OpCall& call) {
  if (!call.has(2)) {
    if (call.type(0) != ElementType::kFloat) return U{0};
    const float value = call.real("value", 0);
    U bits{};
    std::copy_n(reinterpret_cast<const char*>(&value), std::min(sizeof(U), sizeof(value)),
                reinterpret_cast<char*>(&bits));
    return bits;
  }
  if (count_of(call.dims(2)) != 1 || call.type(2) != call.type(0)) {
    return invalid_input("a constant that is no single number of the input's type");
  }
  return call.shapes_only() ? U{0} : *call.data<U>(2);
}

Status pad(OpCall& call) {
  MANTISSA_ASSIGN(const PadMode mode, pad_mode(call.text("mode", "constant")));
  MANTISSA_ASSIGN(const std::vector<int64_t> pads, pads_of(call));
  const Dims& from = call.dims(0);
  Dims dims = from;
  for (size_t d = 0; d < dims.size(); ++d) {
    dims[d] += pads[d] + pads[d + dims.size()];
    if (dims[d] < 0) return invalid_input("pads that leave nothing");
  }
  return with_size(call.type(0), [&]<typename U>() -> Status {
    MANTISSA_ASSIGN(const U value, pad_value<U>(call));
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only() || count_of(dims) == 0) return {};
    U* out = call.out<U>(0);
    if (dims.empty()) {
      *out = *call.data<U>(0);
      return {};
    }
    std::vector<std::vector<int64_t>> places;
    for (size_t d = 0; d < dims.size(); ++d) {
      MANTISSA_ASSIGN(std::vector<int64_t> list,
                      pad_places(mode, from[d], pads[d], pads[d + dims.size()]));
      places.push_back(std::move(list));
    }
    const Dims strides = strides_of(from);
    const int64_t columns = dims.back();
    Dims at(dims.size(), 0);
    for (int64_t row = 0; row < count_of(dims) / columns; ++row) {
      int64_t offset = 0;
      bool inside = true;
      for (size_t d = 0; d + 1 < dims.size(); ++d) {
        inside = inside && places[d][at[d]] >= 0;
        offset += places[d][at[d]] * strides[d];
      }
      for (int64_t i = 0; i < columns; ++i) {
        const int64_t place = places.back()[i];
        *out++ = inside && place >= 0 ? call.data<U>(0)[offset + place] : value;
      }
      for (size_t d = dims.size() - 1; d-- > 0;) {
        if (++at[d] < dims[d]) break;
        at[d] = 0;
      }
    }
    return {};
  });
}

constexpr OpRow kSliceRows[] = {
    {"Concat", 4, concat, {1, kMany}, "axis"},
    {"Split", 2, split, 1, "axis split", 12, kMany},
    {"Split", 13, split, {1, 2}, "axis", 17, kMany},
    {"Split", 18, split, {1, 2}, "axis num_outputs", kNewestOpset, kMany},
    {"Slice", 1, slice, 1, "axes ends starts", 9},
    {"Slice", 10, slice, {3, 5}},
    {"Pad", 2, pad, 1, "mode pads value", 10},
    {"Pad", 11, pad, {2, 3}, "mode", 17},
    {"Pad", 18, pad, {2, 4}, "mode"},
};

}  // namespace

std::span<const OpRow> slice_operators() { return kSliceRows; }

}  // namespace mantissa::onnx
