// Pictures read at places that another value names: GridSample, and the grids of AffineGrid.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

enum class Sampling : uint8_t { kNearest, kLinear, kCubic };
enum class Border : uint8_t { kZeros, kEdge, kReflection };

struct Sampler {
  Sampling sampling;
  Border border;
  bool align_corners;
};

Result<Sampler> sampler_of(OpCall& call) {
  const std::string mode = call.text("mode", call.opset() < 20 ? "bilinear" : "linear");
  const std::string padding = call.text("padding_mode", "zeros");
  Sampler sampler{Sampling::kLinear, Border::kZeros, call.integer("align_corners", 0) != 0};
  if (mode == "nearest") {
    sampler.sampling = Sampling::kNearest;
  } else if (mode == "bicubic" || mode == "cubic") {
    sampler.sampling = Sampling::kCubic;
  } else if (mode != "bilinear" && mode != "linear") {
    return invalid_input("mode '" + mode + "'");
  }
  if (padding == "border") {
    sampler.border = Border::kEdge;
  } else if (padding == "reflection") {
    sampler.border = Border::kReflection;
  } else if (padding != "zeros") {
    return invalid_input("padding_mode '" + padding + "'");
  }
  return sampler;
}

double reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0 || !std::isfinite(x)) return low;
  const double outside = x < low ? low - x : std::max(x - high, 0.0);
  const double turns = std::floor(outside / range);
  const double rest = outside - turns * range;
  const bool even = std::fmod(turns, 2) == 0;
  if (x < low) return even ? low + rest : high - rest;
  if (x > high) return even ? high - rest : low + rest;
  return x;
}

// A place along one dimension, or -1 where a 0 stands.
int64_t place_inside(const Sampler& sampler, double x, int64_t size) {
  const auto last = static_cast<double>(size - 1);
  if (sampler.border == Border::kEdge) x = std::clamp(x, 0.0, last);
  if (sampler.border == Border::kReflection) {
    x = sampler.align_corners ? reflected(x, 0, last) : reflected(x, -0.5, last + 0.5);
  }
  return x >= 0 && x <= last ? static_cast<int64_t>(x) : -1;
}

// The places along one dimension that a sample reads, and their shares.
struct Taps {
  int count = 0;
  std::array<int64_t, 4> places;
  std::array<double, 4> shares;
};

std::array<double, 4> cubic_shares(double t) {
  constexpr double kA = -0.75;
  const auto near = [](double x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  return {far(1 + t), near(t), near(1 - t), far(2 - t)};
}

Taps taps_of(const Sampler& sampler, double x, int64_t size) {
  const auto length = static_cast<double>(size);
  x = sampler.align_corners ? (x + 1) / 2 * (length - 1) : ((x + 1) * length - 1) / 2;
  if (!std::isfinite(x)) x = -2 * length;
  if (sampler.sampling == Sampling::kNearest) x = std::nearbyint(x);
  const double low = sampler.align_corners ? 0 : -0.5;
  const double high = sampler.align_corners ? length - 1 : length - 0.5;
  if (x < low || x > high) {
    if (sampler.border == Border::kEdge) x = std::clamp(x, 0.0, length - 1);
    if (sampler.border == Border::kReflection) x = reflected(x, low, high);
  }
  const double floor = std::floor(x);
  const double t = x - floor;
  Taps taps;
  const auto add = [&](double place, double share) {
    taps.places[taps.count] = place_inside(sampler, place, size);
    taps.shares[taps.count++] = share;
  };
  switch (sampler.sampling) {
    case Sampling::kNearest:
      add(x, 1);
      break;
    case Sampling::kLinear:
      add(floor, 1 - t);
      add(floor + 1, t);
      break;
    case Sampling::kCubic: {
      const std::array<double, 4> shares = cubic_shares(t);
      for (int k = 0; k < 4; ++k) add(floor - 1 + k, shares[k]);
    }
  }
  return taps;
}

// The sum over all combinations of taps, the last dimension innermost.
template <typename T>
double sample(const T* image, const Dims& sizes, const std::vector<Taps>& taps, size_t d,
              int64_t offset) {
  if (d == sizes.size()) return static_cast<double>(image[offset]);
  double sum = 0;
  for (int k = 0; k < taps[d].count; ++k) {
    if (taps[d].places[k] < 0) continue;
    sum += taps[d].shares[k] *
           sample(image, sizes, taps, d + 1, offset * sizes[d] + taps[d].places[k]);
  }
  return sum;
}

Status grid_sample(OpCall& call) {
  MANTISSA_ASSIGN(const Sampler sampler, sampler_of(call));
  const Dims& from = call.dims(0);
  const Dims& grid = call.dims(1);
  const int64_t rank = call.rank(0) - 2;
  if (rank < 1 || rank > 3 || call.rank(1) != rank + 2 || grid[0] != from[0] ||
      grid.back() != rank || count_of({from.begin() + 2, from.end()}) == 0) {
    return invalid_input("a grid of dims " + to_text(grid) + " for a value of dims " +
                         to_text(from));
  }
  Dims dims(grid.begin(), grid.end() - 1);
  dims.insert(dims.begin() + 1, from[1]);
  const Dims sizes(from.begin() + 2, from.end());
  const int64_t inputs = count_of(sizes);
  const int64_t outputs = count_of({grid.begin() + 1, grid.end() - 1});
  return with_type(Floats(), call.type(1), [&]<typename G>() -> Status {
    return with_type(Numbers(), call.type(0), [&]<typename T>() -> Status {
      MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
      if (call.shapes_only()) return {};
      call.pool().parallel_for(from[0] * outputs, [&](int64_t i, int) {
        std::vector<Taps> taps(sizes.size());
        // The grid names the last dimension first.
        for (int64_t d = 0; d < rank; ++d) {
          const auto x = static_cast<double>(call.data<G>(1)[i * rank + rank - 1 - d]);
          taps[d] = taps_of(sampler, x, sizes[d]);
        }
        for (int64_t c = 0; c < from[1]; ++c) {
          const int64_t image = i / outputs * from[1] + c;
          call.out<T>(0)[image * outputs + i % outputs] =
              static_cast<T>(sample(call.data<T>(0) + image * inputs, sizes, taps, 0, 0));
        }
      });
      return {};
    });
  });
}

// The places -1 to 1 along a dimension.
double place_of(int64_t i, int64_t size, bool align_corners) {
  const auto x = static_cast<double>(i);
  const auto length = static_cast<double>(size);
  if (align_corners) return size == 1 ? 0 : 2 * x / (length - 1) - 1;
  return (2 * x + 1) / length - 1;
}

Status affine_grid(OpCall& call) {
  const bool align_corners = call.integer("align_corners", 0) != 0;
  MANTISSA_ASSIGN(const std::vector<int64_t> size, call.whole(1));
  const auto rank = static_cast<int64_t>(size.size()) - 2;
  if ((rank != 2 && rank != 3) || call.dims(0) != Dims{size[0], rank, rank + 1}) {
    return invalid_input("a matrix of dims " + to_text(call.dims(0)) + " for size " +
                         to_text(size));
  }
  Dims dims = {size[0]};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(rank);
  return with_type(Floats(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    const int64_t places = count_of({size.begin() + 2, size.end()});
    for (int64_t i = 0; i < size[0] * places; ++i) {
      double at[3];  // the last dimension first
      int64_t rest = i % places;
      for (int64_t d = 0; d < rank; ++d) {
        const int64_t length = size[size.size() - 1 - d];
        at[d] = place_of(rest % length, length, align_corners);
        rest /= length;
      }
      for (int64_t row = 0; row < rank; ++row) {
        const T* matrix = call.data<T>(0) + (i / places * rank + row) * (rank + 1);
        auto sum = static_cast<double>(matrix[rank]);
        for (int64_t d = 0; d < rank; ++d) sum += at[d] * static_cast<double>(matrix[d]);
        call.out<T>(0)[i * rank + row] = static_cast<T>(sum);
      }
    }
    return {};
  });
}

constexpr OpRow kGridRows[] = {
    {"GridSample", 16, grid_sample, 2, "align_corners mode padding_mode"},
    {"AffineGrid", 20, affine_grid, 2, "align_corners"},
};

}  // namespace

std::span<const OpRow> grid_operators() { return kGridRows; }

}  // namespace mantissa::onnx
