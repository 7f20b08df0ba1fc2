// Regions of pictures: their features, and those that others do not cover.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

struct RoiAlign {
  int64_t height, width, samples;
  float scale, offset;
  bool largest, unscaled;  // the maximum; regions have at least one pixel
};

// The four pixels around a place, and their shares; all 0 outside.
struct Corners {
  int64_t places[4] = {0, 0, 0, 0};
  double shares[4] = {0, 0, 0, 0};
};

Corners corners_of(double y, double x, int64_t height, int64_t width) {
  Corners corners;
  if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 && x <= static_cast<double>(width)))
    return corners;
  y = std::clamp(y, 0.0, static_cast<double>(height - 1));
  x = std::clamp(x, 0.0, static_cast<double>(width - 1));
  const auto top = static_cast<int64_t>(y);
  const auto left = static_cast<int64_t>(x);
  const int64_t bottom = std::min(top + 1, height - 1);
  const int64_t right = std::min(left + 1, width - 1);
  const double v = y - static_cast<double>(top);
  const double h = x - static_cast<double>(left);
  return {{top * width + left, top * width + right, bottom * width + left, bottom * width + right},
          {(1 - v) * (1 - h), (1 - v) * h, v * (1 - h), v * h}};
}

// The bins of one region of one picture, [height, width].
void align_region(const RoiAlign& align, const float* image, int64_t height, int64_t width,
                  const float* region, float* out) {
  const double left = static_cast<double>(region[0]) * align.scale - align.offset;
  const double top = static_cast<double>(region[1]) * align.scale - align.offset;
  double wide = static_cast<double>(region[2]) * align.scale - align.offset - left;
  double high = static_cast<double>(region[3]) * align.scale - align.offset - top;
  if (align.unscaled) {
    wide = std::max(wide, 1.0);
    high = std::max(high, 1.0);
  }
  const double bin_height = high / static_cast<double>(align.height);
  const double bin_width = wide / static_cast<double>(align.width);
  const auto samples = [&](double bin) {
    return align.samples > 0 ? align.samples
                             : static_cast<int64_t>(std::clamp(std::ceil(bin), 0.0, 4096.0));
  };
  const int64_t rows = samples(bin_height);
  const int64_t columns = samples(bin_width);
  for (int64_t bin = 0; bin < align.height * align.width; ++bin) {
    double sum = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (int64_t s = 0; s < rows * columns; ++s) {
      const double row = static_cast<double>(s / columns) + 0.5;
      const double column = static_cast<double>(s % columns) + 0.5;
      const Corners corners = corners_of(
          top + (static_cast<double>(bin / align.width) + row / static_cast<double>(rows)) *
                    bin_height,
          left + (static_cast<double>(bin % align.width) + column / static_cast<double>(columns)) *
                     bin_width,
          height, width);
      for (int k = 0; k < 4; ++k) {
        const double share = corners.shares[k] * static_cast<double>(image[corners.places[k]]);
        sum += share;
        most = std::max(most, share);
      }
    }
    const int64_t count = std::max<int64_t>(rows * columns, 1);
    out[bin] = static_cast<float>(!align.largest        ? sum / static_cast<double>(count)
                                  : rows * columns == 0 ? 0.0
                                                        : most);
  }
}

Status roi_align(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(2));
  const std::string mode = call.text("mode", "avg");
  const std::string kind = call.text("coordinate_transformation_mode",
                                     call.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if ((mode != "avg" && mode != "max") || (kind != "half_pixel" && kind != "output_half_pixel")) {
    return invalid_input("mode '" + mode + "' or coordinate_transformation_mode '" + kind + "'");
  }
  const RoiAlign align{call.integer("output_height", 1),
                       call.integer("output_width", 1),
                       call.integer("sampling_ratio", 0),
                       call.real("spatial_scale", 1),
                       kind == "half_pixel" ? 0.5f : 0.0f,
                       mode == "max",
                       kind != "half_pixel"};
  const Dims& from = call.dims(0);
  const int64_t regions = call.rank(1) == 2 ? call.dims(1)[0] : 0;
  if (from.size() != 4 || call.rank(1) != 2 || call.dims(1)[1] != 4 ||
      call.dims(2) != Dims{regions} || align.height < 1 || align.width < 1 || align.samples < 0 ||
      align.samples > 4096 || from[2] * from[3] == 0) {
    return invalid_input("regions of dims " + to_text(call.dims(1)) + " in a value of dims " +
                         to_text(from));
  }
  MANTISSA_RETURN_IF_ERROR(
      call.make(0, ElementType::kFloat, {regions, from[1], align.height, align.width}));
  if (call.shapes_only()) return {};
  MANTISSA_ASSIGN(const std::vector<int64_t> pictures, whole_numbers(call.input(2)));
  for (const int64_t picture : pictures) {
    if (picture < 0 || picture >= from[0]) {
      return invalid_input("picture " + std::to_string(picture) + " of " + std::to_string(from[0]));
    }
  }
  call.pool().parallel_for(regions * from[1], [&](int64_t i, int) {
    const int64_t region = i / from[1];
    const int64_t image = pictures[region] * from[1] + i % from[1];
    align_region(align, call.data<float>(0) + image * from[2] * from[3], from[2], from[3],
                 call.data<float>(1) + region * 4,
                 call.out<float>(0) + i * align.height * align.width);
  });
  return {};
}

struct Box {
  float top, left, bottom, right;
};

Box box_of(const float* numbers, bool by_centre) {
  if (by_centre) {
    const float x = numbers[0], y = numbers[1], width = numbers[2], height = numbers[3];
    return {y - height / 2, x - width / 2, y + height / 2, x + width / 2};
  }
  return {std::min(numbers[0], numbers[2]), std::min(numbers[1], numbers[3]),
          std::max(numbers[0], numbers[2]), std::max(numbers[1], numbers[3])};
}

// The common area of two boxes, in parts of the area that either covers.
float overlap(const Box& a, const Box& b) {
  const float high = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float wide = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(high > 0 && wide > 0)) return 0;
  const float common = high * wide;
  const float areas =
      (a.bottom - a.top) * (a.right - a.left) + (b.bottom - b.top) * (b.right - b.left);
  return common / (areas - common);
}

struct Suppression {
  int64_t most = 0;
  float overlap = 0, score = -std::numeric_limits<float>::infinity();
};

Result<Suppression> suppression_of(OpCall& call) {
  Suppression limits;
  if (call.has(2)) {
    MANTISSA_ASSIGN(const std::vector<int64_t> given, call.whole(2));
    if (given.size() != 1) return invalid_input("a number of boxes that is no single number");
    limits.most = given[0];
  }
  for (const size_t i : {3, 4}) {
    if (!call.has(i)) continue;
    MANTISSA_ASSIGN(const std::vector<float> given, call.real_numbers(i));
    if (given.size() != 1) return invalid_input("a threshold that is no single number");
    (i == 3 ? limits.overlap : limits.score) = given[0];
  }
  return limits;
}

// The best boxes of one class, the best first, that overlap no better one too far.
std::vector<int64_t> chosen(const std::vector<Box>& boxes, const float* scores,
                            const Suppression& limits) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (scores[i] > limits.score) order.push_back(static_cast<int64_t>(i));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  std::vector<int64_t> kept;
  for (const int64_t i : order) {
    if (static_cast<int64_t>(kept.size()) >= limits.most) break;
    const bool is_covered = std::any_of(kept.begin(), kept.end(), [&](int64_t better) {
      return overlap(boxes[i], boxes[better]) > limits.overlap;
    });
    if (!is_covered) kept.push_back(i);
  }
  return kept;
}

Status non_max_suppression(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(2));
  const Dims& from = call.dims(0);
  const Dims& scores = call.dims(1);
  if (from.size() != 3 || from[2] != 4 || scores.size() != 3 || scores[0] != from[0] ||
      scores[2] != from[1]) {
    return invalid_input("scores of dims " + to_text(scores) + " for boxes of dims " +
                         to_text(from));
  }
  MANTISSA_ASSIGN(const Suppression limits, suppression_of(call));
  if (!call.known(0) || !call.known(1)) return call.not_determined();
  const bool by_centre = call.integer("center_point_box", 0) != 0;
  std::vector<int64_t> found;
  for (int64_t row = 0; row < from[0] * scores[1]; ++row) {
    const int64_t batch = row / scores[1];
    std::vector<Box> boxes;
    for (int64_t i = 0; i < from[1]; ++i) {
      boxes.push_back(box_of(call.data<float>(0) + (batch * from[1] + i) * 4, by_centre));
    }
    for (const int64_t box : chosen(boxes, call.data<float>(1) + row * from[1], limits)) {
      found.insert(found.end(), {batch, row % scores[1], box});
    }
  }
  const auto count = static_cast<int64_t>(found.size()) / 3;
  MANTISSA_RETURN_IF_ERROR(call.make_known(0, ElementType::kInt64, {count, 3}));
  std::copy(found.begin(), found.end(), call.out<int64_t>(0));
  return {};
}

constexpr OpRow kRegionRows[] = {
    {"RoiAlign", 10, roi_align, 3, "mode output_height output_width sampling_ratio spatial_scale",
     15},
    {"RoiAlign", 16, roi_align, 3,
     "coordinate_transformation_mode mode output_height output_width sampling_ratio "
     "spatial_scale"},
    {"NonMaxSuppression", 10, non_max_suppression, {2, 5}, "center_point_box"},
};

}  // namespace

std::span<const OpRow> region_operators() { return kRegionRows; }

}  // namespace mantissa::onnx
