// The task of classification: examples have a label, networks a logit for each class.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "base/system/thread_pool.h"
#include "data/batches/examples.h"
#include "infer/frozen_network.h"
#include "infer/tasks/evaluation.h"
#include "infer/tasks/task.h"

namespace mantissa {

// The meaning of the network's results (ModelOptions), and the kernels that compute it.
struct ClassifierOptions {
  int64_t classes = 0;  // or labels
  bool one_logit = false;
  ops::LossKind loss = ops::LossKind::kCrossEntropy;
  Isa isa = Isa::kScalar;  // of the softmax that probabilities come from
  std::vector<double> thresholds = {};  // as in ClassificationEvaluation
  OutputPlace place = {};
};

// Runs all batches through programs with a loss; each has the tensor of labels. Results do not
// depend on the sizes of batches. kInterrupted if the observer stopped it.
Result<ClassificationEvaluation> evaluate(Programs& programs, BatchSource& batches,
                                          const ClassifierOptions& options,
                                          const EvaluationObserver& observer = nullptr);

// The task. `data` and the names of the classes go into the report.
Task classification_task(const ClassifierOptions& options, std::string data,
                         std::vector<std::string> class_names);

// The mean loss of always giving every class the same probability, or as squared error of the best
// answer that does not look at the example.
double guessing_loss(ops::LossKind loss, int64_t classes);

// The class that the logits of an example stand for.
int guessed_class(const FrozenDescription& description, std::span<const double> logits);

// Whether a network gives labels that do not exclude one another.
bool gives_labels(const FrozenDescription& description);

// All that the results of an example stand for: its class; of places the class of each, row after
// row; the numbers of the labels above their thresholds; or labels in their order. Empty of
// numbers.
std::vector<int> guesses_of(const FrozenDescription& description, std::span<const double> logits);

// The results of a network for some examples.
struct Classified {
  // Rows are examples; or places, those of the first example first.
  std::vector<double> probabilities;  // [rows][classes]
  std::vector<double> scores;         // of labels [rows][labels], of two classes [rows]
  std::vector<int> guesses;           // [rows], of classes in an order
  std::vector<double> numbers;        // [count][numbers], instead if numbers are predicted
  std::vector<std::vector<int>> sequences;  // [count], instead if labels come in an order
  // The logits as they were computed, [count][classes], or [count][places][classes]: mantissas *
  // 2^exponent, or in fp32 the numbers.
  std::vector<int32_t> mantissas;
  int exponent = 0;
  std::vector<float> logits;
};

// The descriptions that results of a network are understood by: of each output, without a network,
// if there are several; else its own.
std::vector<FrozenDescription> output_descriptions(const FrozenDescription& description);

// Classifies examples, or predicts their numbers: a result for each output. Labels need not be among
// their tensors.
Result<std::vector<Classified>> classify_outputs(FrozenNetwork& network,
                                                 std::span<const FrozenDescription> outputs,
                                                 const Examples& examples, ThreadPool& pool,
                                                 Isa isa);

// The same of a network with one output.
Result<Classified> classify(FrozenNetwork& network, const Examples& examples, ThreadPool& pool,
                            Isa isa);

}  // namespace mantissa
