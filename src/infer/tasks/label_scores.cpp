#include "infer/tasks/label_scores.h"

#include <algorithm>
#include <cmath>

namespace mantissa {
namespace {

double part_of(int64_t count, int64_t all) {
  return all > 0 ? static_cast<double>(count) / static_cast<double>(all) : NAN;
}

double f1_of(const ClassCounts& counts) {
  const int64_t all = counts.examples + counts.guesses;
  return all > 0 ? part_of(2 * counts.right, all) : 0;
}

}  // namespace

RankingScore ranking_score(std::vector<ScoredLabel> labels) {
  std::sort(labels.begin(), labels.end(),
            [](const ScoredLabel& a, const ScoredLabel& b) { return a.score > b.score; });
  const auto count = std::ssize(labels);
  const int64_t ones = std::count_if(labels.begin(), labels.end(),
                                     [](const ScoredLabel& label) { return label.is_one; });
  if (ones == 0 || ones == count) return {NAN, NAN};
  int64_t found = 0;   // examples of 1 with this score or a higher one
  int64_t halves = 0;  // twice the pairs of 1 and 0 in the right order; of equal scores once
  double precisions = 0;
  for (int64_t at = 0; at < count;) {
    int64_t end = at, equal = 0;
    for (; end < count && labels[end].score == labels[at].score; ++end) equal += labels[end].is_one;
    const int64_t zeros = end - at - equal;
    halves += zeros * (2 * found + equal);
    found += equal;
    precisions += part_of(found, end) * static_cast<double>(equal);
    at = end;
  }
  return {part_of(halves, 2 * ones * (count - ones)), precisions / static_cast<double>(ones)};
}

LabelsScore labels_score(std::span<const ClassCounts> labels, std::span<const int64_t> known) {
  LabelsScore score;
  ClassCounts all;
  for (size_t k = 0; k < labels.size(); ++k) {
    const ClassCounts& one = labels[k];
    all.examples += one.examples;
    all.guesses += one.guesses;
    all.right += one.right;
    score.macro_f1 += f1_of(one) / static_cast<double>(labels.size());
    score.accuracy.push_back(
        part_of(known[k] - one.examples - one.guesses + 2 * one.right, known[k]));
  }
  score.micro_f1 = f1_of(all);
  return score;
}

}  // namespace mantissa
