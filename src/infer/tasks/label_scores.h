// Scores of predictions of 0 and 1. For one label: how well probabilities order the examples. For
// several: how many labels are found. As scikit-learn defines them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/tasks/evaluation.h"

namespace mantissa {

// An example's logit, or any other number that grows with the probability, and whether it is 1.
struct ScoredLabel {
  double score = 0;
  bool is_one = false;
};

// roc_auc_score and average_precision_score.
RankingScore ranking_score(std::vector<ScoredLabel> labels);

// f1_score with average="micro" and "macro" (0 for a label without examples and guesses), and
// accuracy_score of each label, over the examples whose targets are known. `known`: how many these
// are for each label.
LabelsScore labels_score(std::span<const ClassCounts> labels, std::span<const int64_t> known);

}  // namespace mantissa
