// The task of networks that find the labels of a sequence in their order, without places
// (ctc_loss).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/batches/batch.h"
#include "graph/graph.h"
#include "infer/tasks/task.h"
#include "tensor/tensor.h"

namespace mantissa {

// How the logits of a network spell labels.
struct SpellingOptions {
  int32_t blank = 0;         // the class that is no label
  std::string lengths = {};  // the tensor of the positions that count; "": all do
};
SpellingOptions spelling_of(const Graph& network);

// The labels of the best path: the class of the largest logit at each position (of equals the
// first), where classes that repeat become one and blanks are left out. `logits`:
// [positions][classes].
std::vector<int> best_path(std::span<const double> logits, int64_t classes, int32_t blank);

// The labels of each example of a batch by the best path.
std::vector<std::vector<int>> spelled_labels(const Tensor& logits, const Batch& batch,
                                             const SpellingOptions& options);

// The least number of insertions, deletions and exchanges that make one of the other.
int64_t edit_distance(std::span<const int> a, std::span<const int> b);

// The labels without the padding behind them.
std::vector<int> known_labels(std::span<const int32_t> labels);

// The task. An example is right if all its labels are. `data` goes into the report.
Task sequence_task(const Graph& network, const ModelOptions& options, std::string data);

}  // namespace mantissa
