// Operators that cut a value to size, write into a part of it, or read its bits as another type.
#include <algorithm>
#include <numeric>

#include "onnx/evaluate/copy.h"
#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

// Cut and padded evenly on both sides; of an odd number the end gets one more.
Status center_crop_pad(OpCall& call) {
  MANTISSA_ASSIGN(const std::vector<int64_t> sizes, call.whole(1));
  std::vector<int64_t> axes = call.integers("axes");
  if (!call.has_attribute("axes")) {
    axes.resize(call.dims(0).size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (sizes.size() != axes.size()) return invalid_input("sizes for another rank");
  const Dims& from = call.dims(0);
  Dims dims = from;
  for (size_t i = 0; i < axes.size(); ++i) {
    MANTISSA_ASSIGN(const int64_t axis, call.axis(axes[i], call.rank(0)));
    if (sizes[i] < 0) return invalid_input("a size of " + std::to_string(sizes[i]));
    dims[axis] = sizes[i];
  }
  return with_size(call.type(0), [&]<typename U>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    const Dims in_strides = strides_of(from), out_strides = strides_of(dims);
    Dims kept;
    const U* in = call.data<U>(0);
    U* out = call.out<U>(0);
    for (size_t d = 0; d < dims.size(); ++d) {
      kept.push_back(std::min(from[d], dims[d]));
      in += (from[d] - kept[d]) / 2 * in_strides[d];
      out += (dims[d] - kept[d]) / 2 * out_strides[d];
    }
    walk(merged({kept, {in_strides, out_strides}}),
         [&](const int64_t* offsets, const int64_t* steps, int64_t count) {
           for (int64_t i = 0; i < count; ++i) {
             out[offsets[1] + i * steps[1]] = in[offsets[0] + i * steps[0]];
           }
         });
    return {};
  });
}

// A cache with new positions, from a place on for each example; circular: it goes on at the start.
Status tensor_scatter(OpCall& call) {
  const std::string mode = call.text("mode", "linear");
  if (mode != "linear" && mode != "circular") return invalid_input("mode '" + mode + "'");
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", -2), call.rank(0)));
  const Dims& dims = call.dims(0);
  Dims wanted = dims;
  if (call.rank(1) == call.rank(0)) wanted[axis] = call.dims(1)[axis];
  if (axis == 0 || call.dims(1) != wanted || call.type(1) != call.type(0) ||
      wanted[axis] > dims[axis] || (call.has(2) && call.dims(2) != Dims{dims[0]})) {
    return invalid_input("an update of dims " + to_text(call.dims(1)) + " in a value of dims " +
                         to_text(dims));
  }
  return with_size(call.type(0), [&]<typename U>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only() || count_of(dims) == 0) return {};
    std::vector<int64_t> starts(static_cast<size_t>(dims[0]), 0);
    if (call.has(2)) {
      MANTISSA_ASSIGN(starts, whole_numbers(call.input(2)));
    }
    std::copy_n(call.data<U>(0), count_of(dims), call.out<U>(0));
    const int64_t outer = count_of({dims.begin(), dims.begin() + axis});
    const int64_t inner = count_of({dims.begin() + axis + 1, dims.end()});
    const U* update = call.data<U>(1);
    for (int64_t row = 0; row < outer * wanted[axis]; ++row, update += inner) {
      const int64_t o = row / wanted[axis];
      const int64_t start = starts[o / (outer / dims[0])];
      if (start < 0 || start > dims[axis]) return invalid_input("place " + std::to_string(start));
      int64_t place = start + row % wanted[axis];
      if (mode == "circular") place %= dims[axis];
      if (place >= dims[axis]) return invalid_input("place " + std::to_string(place));
      std::copy_n(update, inner, call.out<U>(0) + (o * dims[axis] + place) * inner);
    }
    return {};
  });
}

Status bit_cast(OpCall& call) {
  const int64_t to = call.integer("to", 0);
  const auto type = static_cast<ElementType>(std::clamp<int64_t>(to, 0, UINT8_MAX));
  if (element_bits(type) == 0 || element_bits(type) != element_bits(call.type(0))) {
    return invalid_input(std::string("bits of ") + element_name(call.type(0)) + " as " +
                         element_name(type));
  }
  MANTISSA_RETURN_IF_ERROR(call.forward(0, 0, call.dims(0)));
  call.output(0).type = type;
  return {};
}

constexpr OpRow kCropRows[] = {
    {"BitCast", 26, bit_cast, 1, "to"},
    {"CenterCropPad", 18, center_crop_pad, 2, "axes"},
    {"TensorScatter", 24, tensor_scatter, {2, 3}, "axis mode"},
};

}  // namespace

std::span<const OpRow> crop_operators() { return kCropRows; }

}  // namespace mantissa::onnx
