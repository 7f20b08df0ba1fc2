// The purpose of a network: its loss, its scores, and how they are reported.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/batches/batch.h"
#include "data/datasets/dataset.h"
#include "infer/programs.h"
#include "infer/tasks/evaluation.h"
#include "models/models.h"
#include "ops/loss.h"

namespace mantissa {

// How far a predicted number is from the target, in the target's own unit.
struct NumberScore {
  std::string name = {};
  double rmse = 0;  // root of the mean square of errors
  double mae = 0;   // mean of their magnitudes
  double r2 = 0;    // 1 - squared errors / squares around the mean
};

// The means over the numbers, and each.
struct RegressionScore {
  double rmse = 0, mae = 0, r2 = 0;
  std::vector<NumberScore> each = {};
};

// How well tokens are told, by the mean loss.
struct LanguageScore {
  double bits_per_token = 0;
  double perplexity = 0;  // e to the loss
  // The bits divided among the bytes of the text, if eval counted them; else below 0.
  double bits_per_byte = -1;
};

// How labels in an order are told: the insertions, deletions and exchanges that the found ones lack
// to be the right ones, and how many right ones there are.
struct SequenceScore {
  int64_t edits = 0, labels = 0;
  double label_error_rate() const {
    return labels == 0 ? 0 : static_cast<double>(edits) / static_cast<double>(labels);
  }
};

// A measurement on some examples. The task decides which ones count as correct.
struct Score {
  int64_t examples = 0;
  int64_t correct = 0;
  int64_t loss_q24 = 0;                                      // sum, as StepTotals counts it
  double loss = 0;                                           // mean
  std::optional<RegressionScore> regression = std::nullopt;  // of tasks that count no correct ones
  std::optional<BinaryScore> binary = std::nullopt;          // of two classes
  std::optional<LabelsScore> labels = std::nullopt;          // of labels that exclude no other
  std::optional<OrdinalScore> ordinal = std::nullopt;        // of classes in an order
  std::optional<LanguageScore> language = std::nullopt;  // of tokens, which are the examples then
  std::optional<SequenceScore> sequences = std::nullopt;     // of labels in an order
  std::optional<double> mean_iou = std::nullopt;  // of pixels or positions, which are the examples
  // The score of each output, if there are several. The losses above are their sums, loss_q24 in
  // units of 2^-24.
  std::vector<Score> outputs = {};
  std::string output = {};  // the name of such an output

  double accuracy() const {
    return examples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(examples);
  }
};

// Told after each batch how many examples are done. Returns false to stop.
using EvaluationObserver = std::function<bool(int64_t done)>;

// Where an output of a network has its loss, its results and its labels or targets.
struct OutputPlace {
  int loss = 0, result = 0;  // numbers among the network's losses and results
  std::string labels = {};   // the tensor in batches; "": kLabelTensor or kTargetTensor
};

// A value: functions and numbers. The training loop knows nothing else of what it trains.
struct Task {
  ops::LossKind loss = ops::LossKind::kCrossEntropy;
  bool counts_correct = true;  // examples are right or wrong; numbers are not
  bool reads_results = true;   // of the network; else its loss alone
  double guessing_loss = 0;    // of the best answers that do not look at the example
  double high_loss = 0;        // of a network that learned nothing; many times as much is absurd
  double training_scale = 1;   // training losses may be as many times as large: they have weights

  // A score in words, for people: "loss 0.3134, accuracy 62.00 %".
  std::function<std::string(const Score&)> describe = nullptr;

  // The results on some examples.
  struct Report {
    Score score;
    // Only for classes: as in ClassificationEvaluation.
    std::optional<double> top5_accuracy = std::nullopt;
    std::vector<std::vector<int64_t>> confusion = {};
    std::vector<std::vector<ScoredLabel>> scored = {};
    std::vector<Report> outputs = {};  // of each output, if there are several
    // All results as JSON, for a file. `model_sha256` is the hash of the frozen network's tensors;
    // `seconds` only if the time belongs to the results.
    std::function<std::string(const std::string& model_sha256, std::optional<double> seconds)>
        json = nullptr;
  };
  // A measurement in progress: it takes the batches that a frozen network computed, then reports.
  struct Measurement {
    std::function<void(const Programs&, const Batch&, const StepResult&)> add;
    std::function<Report()> report;
  };
  std::function<Measurement()> begin = nullptr;

  // Runs the programs of a frozen network on all batches. Results do not depend on the sizes of
  // batches. kInterrupted if the observer stopped it.
  Result<Report> evaluate(Programs& programs, BatchSource& batches,
                          const EvaluationObserver& observer) const;
};

// The sum of losses in the losses' unit, as scores and steps of such a network count it.
double summed_loss(const ModelOptions& options, int64_t loss_q24);

// The task of a network whose examples have this target. `data`, the data set's name, goes into
// reports. `thresholds`: of all outputs, one after the other. An error if the network reads
// tokens and is no language model.
Result<Task> task_of(const Target& target, const Graph& network, const ModelOptions& options,
                     const std::string& data, Isa isa, std::vector<double> thresholds = {});

// For each label, or for the second of two classes, the threshold with the best F1 on the examples
// that were scored.
std::vector<double> best_thresholds(const Task::Report& report);

// Runs programs with a loss on all batches, and tells the observer of each.
Status evaluate_all(Programs& programs, BatchSource& batches, const EvaluationObserver& observer,
                    const std::function<void(const Batch&, const StepResult&)>& add);

}  // namespace mantissa
