// Resize and Upsample: each dimension by itself, an output number being a sum of inputs.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "onnx/evaluate/copy.h"
#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

// For a dimension, because each place has its own shares.
constexpr int64_t kMostSize = 1 << 20;

// One dimension that is resized.
struct Axis {
  int64_t in = 1;
  int64_t out = 1;
  float scale = 1;
  float roi_start = 0;
  float roi_end = 1;
};

struct Method {
  std::string mode = "nearest";
  std::string coordinates = "half_pixel";
  std::string rounding = "round_prefer_floor";
  float cubic_a = -0.75f;
  bool excludes_outside = false;
  float outside = 0;  // with tf_crop_and_resize
};

// Inputs and their shares in one output; none: the place lies outside.
struct Share {
  int64_t place;
  float weight;
};
using Shares = std::vector<Share>;

float coordinate(const Method& method, const Axis& axis, int64_t out) {
  const auto x = static_cast<float>(out);
  const auto in_size = static_cast<float>(axis.in);
  const auto out_size = static_cast<float>(axis.out);
  const std::string& mode = method.coordinates;
  if (mode == "asymmetric") return x / axis.scale;
  if (mode == "align_corners") {
    return axis.out == 1 ? 0 : x * (in_size - 1) / (out_size - 1);
  }
  if (mode == "pytorch_half_pixel") return axis.out == 1 ? 0 : (x + 0.5f) / axis.scale - 0.5f;
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5f) / axis.scale;
  if (mode == "half_pixel_symmetric") {
    // From the centre, which is exact.
    return in_size / 2 - 0.5f + (x + 0.5f - out_size / 2) / axis.scale;
  }
  if (mode == "tf_crop_and_resize") {
    if (axis.out == 1) return 0.5f * (axis.roi_start + axis.roi_end) * (in_size - 1);
    return axis.roi_start * (in_size - 1) +
           x * (axis.roi_end - axis.roi_start) * (in_size - 1) / (out_size - 1);
  }
  return (x + 0.5f) / axis.scale - 0.5f;
}

bool known_coordinates(const std::string& mode) {
  constexpr const char* kModes[] = {
      "half_pixel",           "asymmetric",           "align_corners",     "pytorch_half_pixel",
      "tf_half_pixel_for_nn", "half_pixel_symmetric", "tf_crop_and_resize"};
  return std::find(std::begin(kModes), std::end(kModes), mode) != std::end(kModes);
}

float round_place(const std::string& rounding, float x) {
  if (rounding == "floor") return std::floor(x);
  if (rounding == "ceil") return std::ceil(x);
  // Halves go down or up.
  if (rounding == "round_prefer_ceil") return std::floor(x + 0.5f);
  return std::ceil(x - 0.5f);
}

// Weights of the four inputs around a place that lies `t` after the second.
std::array<float, 4> cubic_weights(float t, float a) {
  const auto near = [a](float x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [a](float x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(1 + t), near(t), near(1 - t), far(2 - t)};
}

Shares shares_of(const Method& method, const Axis& axis, int64_t out) {
  const float x = coordinate(method, axis, out);
  const int64_t last = axis.in - 1;
  if (method.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<float>(last))) {
    return {};
  }
  const auto clamped = [last](float place) {
    if (!(place > 0)) return int64_t{0};
    return place >= static_cast<float>(last) ? last : static_cast<int64_t>(place);
  };
  if (method.mode == "nearest") return {{clamped(round_place(method.rounding, x)), 1.0f}};
  const float floor = std::floor(x);
  const float t = x - floor;
  if (method.mode == "linear") {
    return {{clamped(floor), 1 - t}, {clamped(floor + 1), t}};
  }
  std::array<float, 4> weights = cubic_weights(t, method.cubic_a);
  Shares shares;
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    const float place = floor + static_cast<float>(k) - 1;
    if (method.excludes_outside && (place < 0 || place > static_cast<float>(last))) weights[k] = 0;
    sum += weights[k];
    shares.push_back({clamped(place), weights[k]});
  }
  if (method.excludes_outside) {
    for (Share& share : shares) share.weight /= sum;
  }
  return shares;
}

// Resizes one dimension of a value of rows: `inner` numbers lie beside each other.
void resize_axis(const std::vector<Shares>& shares, int64_t in_size, int64_t outer, int64_t inner,
                 float outside, const std::vector<float>& in, std::vector<float>& out) {
  const auto out_size = static_cast<int64_t>(shares.size());
  out.assign(outer * out_size * inner, 0.0f);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < out_size; ++k) {
      float* sums = out.data() + (o * out_size + k) * inner;
      if (shares[k].empty()) std::fill_n(sums, inner, outside);
      for (const Share& share : shares[k]) {
        const float* row = in.data() + (o * in_size + share.place) * inner;
        for (int64_t i = 0; i < inner; ++i) sums[i] += share.weight * row[i];
      }
    }
  }
}

Status resize_nearest(OpCall& call, const std::vector<std::vector<Shares>>& shares) {
  const Dims& dims = call.output(0).dims;
  return with_size(call.type(0), [&]<typename U>() -> Status {
    const Dims strides = strides_of(call.dims(0));
    const U* in = call.data<U>(0);
    U* out = call.out<U>(0);
    Dims at(dims.size(), 0);
    for (int64_t i = 0; i < count_of(dims); i += dims.back()) {
      int64_t offset = 0;
      for (size_t d = 0; d + 1 < dims.size(); ++d) {
        offset += shares[d][at[d]].front().place * strides[d];
      }
      for (const Shares& share : shares.back()) *out++ = in[offset + share.front().place];
      for (size_t d = dims.size() - 1; d-- > 0;) {
        if (++at[d] < dims[d]) break;
        at[d] = 0;
      }
    }
    return {};
  });
}

Status resize_weighted(OpCall& call, const Method& method,
                       const std::vector<std::vector<Shares>>& shares) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(1));
  Dims dims = call.dims(0);
  std::vector<float> now(call.data<float>(0), call.data<float>(0) + count_of(dims));
  std::vector<float> next;
  for (size_t d = 0; d < dims.size(); ++d) {
    const auto out_size = static_cast<int64_t>(shares[d].size());
    // A number that stays where it is needs no step, unless it lies outside.
    bool stays = out_size == dims[d];
    for (int64_t k = 0; stays && k < out_size; ++k) {
      for (const Share& share : shares[d][k])
        stays = stays && (share.place == k || share.weight == 0);
      stays = stays && !shares[d][k].empty();
    }
    if (stays) continue;
    resize_axis(shares[d], dims[d], count_of({dims.begin(), dims.begin() + d}),
                count_of({dims.begin() + d + 1, dims.end()}), method.outside, now, next);
    now.swap(next);
    dims[d] = out_size;
  }
  std::copy(now.begin(), now.end(), call.out<float>(0));
  return {};
}

Status resize_to(OpCall& call, const Method& method, const std::vector<Axis>& axes) {
  if (method.mode != "nearest" && method.mode != "linear" && method.mode != "cubic") {
    return invalid_input("mode '" + method.mode + "'");
  }
  if (!known_coordinates(method.coordinates)) {
    return invalid_input("coordinate_transformation_mode '" + method.coordinates + "'");
  }
  constexpr const char* kRoundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  if (std::find(std::begin(kRoundings), std::end(kRoundings), method.rounding) ==
      std::end(kRoundings)) {
    return invalid_input("nearest_mode '" + method.rounding + "'");
  }
  Dims dims;
  for (const Axis& axis : axes) {
    if (axis.out < 0 || axis.out > kMostSize || (axis.in == 0) != (axis.out == 0)) {
      return invalid_input("an output of size " + std::to_string(axis.out));
    }
    dims.push_back(axis.out);
  }
  MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
  if (call.shapes_only() || count_of(dims) == 0) return {};
  std::vector<std::vector<Shares>> shares(axes.size());
  for (size_t d = 0; d < axes.size(); ++d) {
    for (int64_t k = 0; k < axes[d].out; ++k) {
      shares[d].push_back(shares_of(method, axes[d], k));
    }
  }
  const bool plain = method.mode == "nearest" && method.coordinates != "tf_crop_and_resize";
  return plain ? resize_nearest(call, shares) : resize_weighted(call, method, shares);
}

Result<Axis> scaled_axis(int64_t in, float scale) {
  if (!(scale > 0 && scale < 1e6f)) return invalid_input("a scale that is not above 0");
  // As ONNX Runtime has it: the product in float.
  const float out = std::floor(static_cast<float>(in) * scale);
  if (!(out < 2e9f)) return invalid_input("an output too large");
  return Axis{in, static_cast<int64_t>(out), scale};
}

Result<std::vector<Axis>> scaled_axes(OpCall& call, const std::vector<float>& scales) {
  if (scales.size() != call.dims(0).size()) return invalid_input("scales for another rank");
  std::vector<Axis> axes;
  for (size_t d = 0; d < scales.size(); ++d) {
    MANTISSA_ASSIGN(const Axis axis, scaled_axis(call.dims(0)[d], scales[d]));
    axes.push_back(axis);
  }
  return axes;
}

Status upsample(OpCall& call) {
  Method method;
  method.mode = call.text("mode", "nearest");
  method.coordinates = "asymmetric";
  method.rounding = "floor";
  std::vector<float> scales = call.reals("scales");
  if (call.has(1)) {
    MANTISSA_ASSIGN(scales, call.real_numbers(1));
  }
  MANTISSA_ASSIGN(const std::vector<Axis> axes, scaled_axes(call, scales));
  return resize_to(call, method, axes);
}

// Sizes for some axes; by policy the same scale for all of them.
Status set_sizes(OpCall& call, const std::vector<int64_t>& which, const std::vector<int64_t>& sizes,
                 std::vector<Axis>& axes) {
  const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller") {
    return invalid_input("keep_aspect_ratio_policy '" + policy + "'");
  }
  float common = 0;
  for (size_t i = 0; i < which.size(); ++i) {
    Axis& axis = axes[which[i]];
    if (axis.in == 0) return invalid_input("nothing to resize");
    if (sizes[i] < 0 || sizes[i] > kMostSize) {
      return invalid_input("an output of size " + std::to_string(sizes[i]));
    }
    axis.out = sizes[i];
    axis.scale = static_cast<float>(sizes[i]) / static_cast<float>(axis.in);
    const bool better = policy == "not_larger" ? axis.scale < common : axis.scale > common;
    if (i == 0 || better) common = axis.scale;
  }
  if (policy == "stretch") return {};
  for (const int64_t d : which) {
    axes[d].scale = common;
    axes[d].out = static_cast<int64_t>(std::floor(common * static_cast<float>(axes[d].in) + 0.5f));
  }
  return {};
}

Status resize_10(OpCall& call) {
  Method method;
  method.mode = call.text("mode", "nearest");
  method.coordinates = "asymmetric";
  method.rounding = "floor";
  MANTISSA_ASSIGN(const std::vector<float> scales, call.real_numbers(1));
  MANTISSA_ASSIGN(const std::vector<Axis> axes, scaled_axes(call, scales));
  return resize_to(call, method, axes);
}

Status resize(OpCall& call) {
  Method method;
  method.mode = call.text("mode", "nearest");
  method.coordinates = call.text("coordinate_transformation_mode", "half_pixel");
  method.rounding = call.text("nearest_mode", "round_prefer_floor");
  method.cubic_a = call.real("cubic_coeff_a", -0.75f);
  method.excludes_outside = call.integer("exclude_outside", 0) != 0;
  method.outside = call.real("extrapolation_value", 0);
  if (call.integer("antialias", 0) != 0) return invalid_input("antialias");
  std::vector<int64_t> which = call.integers("axes");
  if (which.empty()) {
    which.resize(call.dims(0).size());
    std::iota(which.begin(), which.end(), 0);
  }
  std::vector<Axis> axes;
  for (const int64_t size : call.dims(0)) axes.push_back({size, size});
  for (int64_t& d : which) {
    MANTISSA_ASSIGN(d, call.axis(d, call.rank(0)));
  }
  const bool scaled = call.has(2) && count_of(call.dims(2)) > 0;
  if (scaled == (call.has(3) && count_of(call.dims(3)) > 0)) {
    return invalid_input("one of scales and sizes is wanted");
  }
  if (scaled) {
    MANTISSA_ASSIGN(const std::vector<float> scales, call.real_numbers(2));
    if (scales.size() != which.size()) return invalid_input("scales for another rank");
    for (size_t i = 0; i < which.size(); ++i) {
      MANTISSA_ASSIGN(axes[which[i]], scaled_axis(axes[which[i]].in, scales[i]));
    }
  } else {
    MANTISSA_ASSIGN(const std::vector<int64_t> sizes, call.whole(3));
    if (sizes.size() != which.size()) return invalid_input("sizes for another rank");
    MANTISSA_RETURN_IF_ERROR(set_sizes(call, which, sizes, axes));
  }
  if (method.coordinates == "tf_crop_and_resize") {
    if (!call.has(1)) return invalid_input("no region of interest");
    MANTISSA_ASSIGN(const std::vector<float> roi, call.real_numbers(1));
    if (roi.size() != 2 * which.size()) return invalid_input("a region for another rank");
    for (size_t i = 0; i < which.size(); ++i) {
      axes[which[i]].roi_start = roi[i];
      axes[which[i]].roi_end = roi[i + which.size()];
    }
  }
  return resize_to(call, method, axes);
}

constexpr OpRow kResizeRows[] = {
    {"Upsample", 7, upsample, 1, "mode scales", 8},
    {"Upsample", 9, upsample, 2, "mode", 9},
    {"Resize", 10, resize_10, 2, "mode", 10},
    {"Resize",
     11,
     resize,
     {1, 4},
     "coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value mode "
     "nearest_mode",
     17},
    {"Resize",
     18,
     resize,
     {1, 4},
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
     "extrapolation_value keep_aspect_ratio_policy mode nearest_mode"},
};

}  // namespace

std::span<const OpRow> resize_operators() { return kResizeRows; }

}  // namespace mantissa::onnx
