#include "infer/tasks/label_scores.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

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
  if (ones == 0) return {NAN, 0};
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

BinaryScore binary_score(const ClassCounts& second, std::vector<ScoredLabel> labels) {
  const auto part = [&](int64_t all) { return all > 0 ? part_of(second.right, all) : 0; };
  return {ranking_score(std::move(labels)), part(second.guesses), part(second.examples),
          f1_of(second)};
}

double best_threshold(std::vector<ScoredLabel> labels) {
  std::sort(labels.begin(), labels.end(),
            [](const ScoredLabel& a, const ScoredLabel& b) { return a.score > b.score; });
  const auto count = std::ssize(labels);
  ClassCounts counts{.examples = std::count_if(labels.begin(), labels.end(),
                                               [](const ScoredLabel& one) { return one.is_one; })};
  ClassCounts at_zero = counts;
  for (const ScoredLabel& one : labels) {
    at_zero.guesses += one.score > 0;
    at_zero.right += one.score > 0 && one.is_one;
  }
  double best = f1_of(at_zero), threshold = 0;
  for (int64_t at = 0; at < count; ++at) {
    ++counts.guesses;
    counts.right += labels[at].is_one;
    const bool is_last = at + 1 == count;
    if (!is_last && labels[at + 1].score == labels[at].score) continue;
    const double below = is_last ? labels[at].score - 1 : labels[at + 1].score;
    const double middle = labels[at].score / 2 + below / 2, f1 = f1_of(counts);
    if (f1 < best || (f1 == best && std::abs(middle) >= std::abs(threshold))) continue;
    best = f1;
    threshold = middle;
  }
  return threshold;
}

// The expected squares follow from the sums of ranks and of their squares.
OrdinalScore ordinal_score(std::span<const std::pair<int, int>> labels_and_guesses) {
  int64_t magnitudes = 0, squares = 0, labels = 0, guesses = 0, label_squares = 0,
          guess_squares = 0;
  for (const auto& [label, guess] : labels_and_guesses) {
    const int64_t distance = guess - label;
    magnitudes += std::abs(distance);
    squares += distance * distance;
    labels += label;
    guesses += guess;
    label_squares += int64_t{label} * label;
    guess_squares += int64_t{guess} * guess;
  }
  const auto n = static_cast<double>(labels_and_guesses.size());
  const double expected = static_cast<double>(label_squares + guess_squares) -
                          2 * static_cast<double>(labels) * static_cast<double>(guesses) / n;
  return {n > 0 ? static_cast<double>(magnitudes) / n : 0,
          expected > 0 ? 1 - static_cast<double>(squares) / expected : NAN};
}

namespace {

// `ranking_of` and `known_of` have what the scores of a label tell.
template <typename RankingOf, typename KnownOf>
LabelsScore score_labels(std::span<const ClassCounts> labels, const RankingOf& ranking_of,
                         const KnownOf& known_of) {
  LabelsScore score;
  ClassCounts all;
  for (size_t k = 0; k < labels.size(); ++k) {
    const ClassCounts& one = labels[k];
    all.examples += one.examples;
    all.guesses += one.guesses;
    all.right += one.right;
    const int64_t known = known_of(k);
    const RankingScore ranking = ranking_of(k);
    score.f1.push_back(f1_of(one));
    score.average_precision.push_back(ranking.average_precision);
    score.auc.push_back(ranking.auc);
    score.macro_f1 += f1_of(one) / static_cast<double>(labels.size());
    score.mean_average_precision += ranking.average_precision / static_cast<double>(labels.size());
    score.accuracy.push_back(part_of(known - one.examples - one.guesses + 2 * one.right, known));
  }
  score.micro_f1 = f1_of(all);
  return score;
}

}  // namespace

LabelsScore labels_score(std::span<const ClassCounts> labels,
                         const std::vector<std::vector<ScoredLabel>>& scored) {
  return score_labels(
      labels, [&](size_t k) { return ranking_score(scored[k]); },
      [&](size_t k) { return std::ssize(scored[k]); });
}

LabelsScore labels_score_of_places(std::span<const ClassCounts> labels, int64_t places) {
  return score_labels(
      labels, [](size_t) { return RankingScore{.auc = NAN, .average_precision = NAN}; },
      [&](size_t) { return places; });
}

}  // namespace mantissa
