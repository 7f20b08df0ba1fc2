// Scores of predictions of 0 and 1. For one label: how well probabilities order the examples. For
// several: how many labels are found. As scikit-learn defines them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "infer/tasks/evaluation.h"

namespace mantissa {

// roc_auc_score and average_precision_score.
RankingScore ranking_score(std::vector<ScoredLabel> labels);

// precision_score, recall_score and f1_score of the second class, and its ranking.
BinaryScore binary_score(const ClassCounts& second, std::vector<ScoredLabel> labels);

// The threshold with the best F1, where scores above it are taken for 1: half way between two
// scores, or 0 if that is as good; of equals the nearest to 0. Without ones 0.
double best_threshold(std::vector<ScoredLabel> labels);

// mean_absolute_error, and cohen_kappa_score with weights="quadratic", of ranks.
OrdinalScore ordinal_score(std::span<const std::pair<int, int>> labels_and_guesses);

// f1_score with average="micro" and "macro" (0 for a label without examples and guesses), and
// accuracy_score, f1_score, average_precision_score and roc_auc_score of each label, over the
// examples whose targets are known. `scored` has these for each label.
LabelsScore labels_score(std::span<const ClassCounts> labels,
                         const std::vector<std::vector<ScoredLabel>>& scored);

// The same of places, all of whose targets are known, without the ranking scores: these are NaN.
LabelsScore labels_score_of_places(std::span<const ClassCounts> labels, int64_t places);

}  // namespace mantissa
