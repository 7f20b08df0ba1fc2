#include "pipeline/partition.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/sizes.h"
#include "pipeline/names.h"

namespace mantissa::pipeline {
namespace {

constexpr std::array<std::string_view, 4> kBalances = {"time", "operations", "parameters",
                                                       "layers"};
constexpr double kImpossible = std::numeric_limits<double>::infinity();

double load_of(const Layer& layer, Balance balance) {
  switch (balance) {
    case Balance::kTime:
      return layer.time;
    case Balance::kOperations:
      return static_cast<double>(layer.multiply_adds);
    case Balance::kParameters:
      return static_cast<double>(layer.parameters);
    case Balance::kLayers:
      break;
  }
  return 1;
}

// The load and the memory of a stage of layers [first, end).
class Stages {
 public:
  Stages(std::span<const Layer> layers, Balance balance, std::span<const int> windows,
         std::span<const int> versions, const Limits& limits)
      : layers_(layers),
        balance_(balance),
        windows_(windows),
        versions_(versions),
        limits_(limits) {
    loads_.push_back(0);
    sums_.emplace_back();
    for (const Layer& layer : layers) {
      loads_.push_back(loads_.back() + load_of(layer, balance));
      const Sums& before = sums_.back();
      sums_.push_back({before.weights + layer.weight_bytes, before.state + layer.state_bytes,
                       before.kept + layer.kept_bytes});
    }
  }

  double load(int first, int end) const { return loads_[end] - loads_[first]; }

  // The time of the link after layer `end` − 1.
  double transfer(int end) const {
    if (balance_ != Balance::kTime || end == static_cast<int>(layers_.size())) return 0;
    const Layer& layer = layers_[end - 1];
    return limits_.time_per_byte *
           static_cast<double>(std::max(layer.passed_bytes, layer.returned_bytes));
  }

  int64_t bytes(int stage, int first, int end, int64_t work) const {
    const Sums& a = sums_[first];
    const Sums& b = sums_[end];
    return versions_[stage] * (b.weights - a.weights) + b.state - a.state +
           windows_[stage] * (b.kept - a.kept) + work;
  }

  int64_t work(int first, int end) const {
    int64_t work = 0;
    for (int i = first; i < end; ++i) work = std::max(work, layers_[i].work_bytes);
    return work;
  }

 private:
  struct Sums {
    int64_t weights = 0, state = 0, kept = 0;
  };
  std::span<const Layer> layers_;
  Balance balance_;
  std::span<const int> windows_, versions_;
  const Limits& limits_;
  std::vector<double> loads_;
  std::vector<Sums> sums_;
};

// The best division of the first layers among the first stages.
struct Best {
  double largest = kImpossible;
  double squares = kImpossible;  // of all loads: decides between equal ones
  int from = -1;                 // first layer of the last stage
  bool operator<(const Best& other) const {
    return largest != other.largest ? largest < other.largest : squares < other.squares;
  }
};

using Row = std::vector<Best>;  // by the number of layers

// Adds stage `stage` to what the stages before it may have.
Row with_stage(const Row& before, int stage, const Stages& stages, int64_t limit) {
  const int count = static_cast<int>(before.size()) - 1;
  Row row(before.size());
  for (int end = stage + 1; end <= count; ++end) {
    int64_t work = 0;
    for (int first = end - 1; first >= stage; --first) {
      work = std::max(work, stages.work(first, first + 1));
      if (stages.bytes(stage, first, end, work) > limit) break;
      if (before[first].largest == kImpossible) continue;
      const double load = stages.load(first, end);
      const Best best = {std::max({before[first].largest, load, stages.transfer(end)}),
                         before[first].squares + load * load, first};
      if (best < row[end]) row[end] = best;
    }
  }
  return row;
}

Status check(std::span<const Layer> layers, size_t stages) {
  if (stages >= 1 && stages <= layers.size()) return {};
  return invalid_input("a network of " + std::to_string(layers.size()) + " layers has 1 to " +
                       std::to_string(layers.size()) + " stages, not " + std::to_string(stages));
}

// The stage of one layer that needs the most memory of all that could be alone.
Error too_little(std::span<const Layer> layers, const Stages& stages, size_t count,
                 const Limits& limits) {
  for (size_t i = 0; i < layers.size(); ++i) {
    // No stage holds it cheaper than the last that it can be in.
    const int stage = static_cast<int>(std::min(i, count - 1));
    const int at = static_cast<int>(i);
    const int64_t bytes = stages.bytes(stage, at, at + 1, layers[i].work_bytes);
    if (bytes <= limits.stage_bytes) continue;
    return make_error(ErrorCode::kOverBudget,
                      "layer '" + layers[i].name + "' alone needs " + format_bytes(bytes) +
                          " in its stage, which may take " + format_bytes(limits.stage_bytes));
  }
  return make_error(ErrorCode::kOverBudget,
                    "no division among " + std::to_string(count) + " stages keeps each within " +
                        format_bytes(limits.stage_bytes) + " (more stages may)");
}

}  // namespace

std::string_view balance_name(Balance balance) { return kBalances[static_cast<size_t>(balance)]; }

Result<Balance> parse_balance(std::string_view text) {
  MANTISSA_ASSIGN(const size_t index, find_name(text, kBalances));
  return static_cast<Balance>(index);
}

Result<Division> divided(std::span<const Layer> layers, Balance balance, std::span<const int> first,
                         std::span<const int> windows, std::span<const int> versions,
                         const Limits& limits) {
  MANTISSA_RETURN_IF_ERROR(check(layers, first.size()));
  const Stages stages(layers, balance, windows, versions, limits);
  Division division = {.first = {first.begin(), first.end()}, .load = {}, .bytes = {}};
  for (size_t s = 0; s < first.size(); ++s) {
    const int from = first[s];
    const int end = s + 1 < first.size() ? first[s + 1] : static_cast<int>(layers.size());
    if (from >= end || from < 0 || end > static_cast<int>(layers.size()) || first[0] != 0) {
      return invalid_input("stage " + std::to_string(s + 1) + " has no layer");
    }
    division.load.push_back(stages.load(from, end));
    division.bytes.push_back(stages.bytes(static_cast<int>(s), from, end, stages.work(from, end)));
    division.largest = std::max({division.largest, division.load.back(), stages.transfer(end)});
    if (division.bytes.back() > limits.stage_bytes) {
      return make_error(ErrorCode::kOverBudget, "stage " + std::to_string(s + 1) + " needs " +
                                                    format_bytes(division.bytes.back()) +
                                                    ", and may take " +
                                                    format_bytes(limits.stage_bytes));
    }
  }
  return division;
}

Result<Division> divide(std::span<const Layer> layers, Balance balance,
                        std::span<const int> windows, std::span<const int> versions,
                        const Limits& limits) {
  const size_t count = windows.size();
  MANTISSA_RETURN_IF_ERROR(check(layers, count));
  const Stages stages(layers, balance, windows, versions, limits);
  std::vector<Row> rows(1, Row(layers.size() + 1));
  rows[0][0] = {0, 0, 0};
  for (size_t s = 0; s < count; ++s) {
    rows.push_back(with_stage(rows.back(), static_cast<int>(s), stages, limits.stage_bytes));
  }
  if (rows.back().back().largest == kImpossible) return too_little(layers, stages, count, limits);
  std::vector<int> first(count);
  int end = static_cast<int>(layers.size());
  for (size_t s = count; s-- > 0;) end = first[s] = rows[s + 1][end].from;
  return divided(layers, balance, first, windows, versions, limits);
}

}  // namespace mantissa::pipeline
