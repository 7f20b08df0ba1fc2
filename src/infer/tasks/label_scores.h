// What is said of predictions of 0 and 1: of one label how well probabilities order the examples,
// of several how many are found. As scikit-learn defines them.
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

// f1_score with average="micro" and "macro", 0 of a label without examples and guesses, and
// accuracy_score of each label, whose targets are known for so many examples.
LabelsScore labels_score(std::span<const ClassCounts> labels, std::span<const int64_t> known);

}  // namespace mantissa
