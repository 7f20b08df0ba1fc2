// A constant that is added to attention's scores, as a bias by distance.
#include <optional>
#include <utility>
#include <vector>

#include "onnx/import/rows.h"

namespace mantissa::onnx {
namespace {

// The distances of positions that lie row by row in a picture of this size.
struct Distances {
  int64_t height, width;
  int64_t count() const { return (2 * height - 1) * (2 * width - 1); }
  int64_t of(int64_t query, int64_t key) const {
    const int64_t down = query / width - key / width, right = query % width - key % width;
    return (down + height - 1) * (2 * width - 1) + right + width - 1;
  }
};

// The table of [heads, positions, positions] numbers by distance; nothing: they differ at one
// distance. Hidden ones may be anything.
std::optional<std::vector<double>> table_by_distance(const std::vector<double>& numbers,
                                                     int64_t positions,
                                                     const Distances& distances) {
  const int64_t heads = std::ssize(numbers) / (positions * positions);
  std::vector<std::optional<double>> found(static_cast<size_t>(heads * distances.count()));
  for (int64_t at = 0; at < std::ssize(numbers); ++at) {
    if (numbers[at] <= kMasked) continue;
    const int64_t head = at / positions / positions, query = at / positions % positions;
    auto& place = found[head * distances.count() + distances.of(query, at % positions)];
    if (place && *place != numbers[at]) return std::nullopt;
    place = numbers[at];
  }
  std::vector<double> table;
  for (const std::optional<double>& number : found) table.push_back(number.value_or(0));
  return table;
}

}  // namespace

Status add_bias(const std::vector<int64_t>& dims, const std::vector<double>& numbers,
                int64_t positions, int64_t heads, Scores& scores) {
  if (scores.bias_width > 0) return invalid_input("adds a second bias to attention's scores");
  const auto rank = std::ssize(dims);
  const int64_t square = positions * positions, count = std::ssize(numbers) / square;
  const bool is_of_pairs = rank >= 2 && dims[rank - 1] == positions &&
                           dims[rank - 2] == positions;
  const bool is_of_heads = count == 1 || (rank > 2 && dims[rank - 3] == count);
  if (!is_of_pairs || !is_of_heads || (count != 1 && count != heads)) {
    return invalid_input(
        "adds numbers to attention's scores that are not one for each head, query and key");
  }
  for (int64_t height = 1; height <= positions; ++height) {
    if (positions % height != 0 || (height > 1 && height == positions)) continue;
    const Distances distances{height, positions / height};
    auto table = table_by_distance(numbers, positions, distances);
    if (!table) continue;
    for (int64_t head = count; head < heads; ++head) {
      table->insert(table->end(), table->begin(), table->begin() + distances.count());
    }
    scores.bias = std::move(*table);
    scores.bias_height = distances.height;
    scores.bias_width = distances.width;
    return {};
  }
  return invalid_input(
      "adds numbers to attention's scores that do not depend on the distance of positions alone, "
      "in a sequence or a picture");
}

}  // namespace mantissa::onnx
