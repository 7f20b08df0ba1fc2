// Labels in an order: the best path, and distances between labels.
#include "infer/tasks/label_sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace mantissa {
namespace {

using Labels = std::vector<int>;

// Logits of 4 classes whose largest is that of `path` at each position.
std::vector<double> logits_of(const Labels& path) {
  std::vector<double> logits(path.size() * 4, -1);
  for (size_t t = 0; t < path.size(); ++t) logits[t * 4 + static_cast<size_t>(path[t])] = 1;
  return logits;
}

TEST(LabelSequences, TheBestPathLeavesOutBlanksAndWhatRepeats) {
  EXPECT_EQ(best_path(logits_of({0, 3, 3, 0, 3, 1, 1, 2, 0}), 4, 0), (Labels{3, 3, 1, 2}));
  EXPECT_EQ(best_path(logits_of({0, 3, 3, 0, 3, 1}), 4, 3), (Labels{0, 0, 1}));
  EXPECT_EQ(best_path(logits_of({2, 2}), 4, 2), Labels{});
  EXPECT_EQ(best_path({}, 4, 0), Labels{});
  const std::vector<double> equal(4, 0.5);
  EXPECT_EQ(best_path(equal, 4, 3), Labels{0}) << "of equals the first";
}

TEST(LabelSequences, LabelsEndAtTheFirstThatIsUnknown) {
  const int32_t labels[] = {2, 1, -1, -1};
  EXPECT_EQ(known_labels(labels), (Labels{2, 1}));
  EXPECT_EQ(known_labels(std::span(labels).first(2)), (Labels{2, 1}));
  EXPECT_EQ(known_labels(std::span(labels).last(2)), Labels{});
}

// The definition, without a table.
int64_t by_definition(std::span<const int> a, std::span<const int> b) {
  if (a.empty() || b.empty()) return std::ssize(a) + std::ssize(b);
  const auto rest_a = a.subspan(1), rest_b = b.subspan(1);
  return std::min({by_definition(rest_a, b) + 1, by_definition(a, rest_b) + 1,
                   by_definition(rest_a, rest_b) + (a[0] != b[0])});
}

TEST(LabelSequences, EditDistanceIsItsDefinition) {
  EXPECT_EQ(edit_distance(Labels{1, 2, 3}, Labels{1, 3}), 1);
  EXPECT_EQ(edit_distance(Labels{1, 2, 3}, Labels{3, 2, 1}), 2);
  EXPECT_EQ(edit_distance({}, Labels{1, 1}), 2);
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    Labels a(random() % 7), b(random() % 7);
    for (int& label : a) label = static_cast<int>(random() % 3);
    for (int& label : b) label = static_cast<int>(random() % 3);
    EXPECT_EQ(edit_distance(a, b), by_definition(a, b));
  }
}

}  // namespace
}  // namespace mantissa
