// The evaluation of a classifier: accuracy, loss, confusions and the worst predictions, and its
// JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/softmax/softmax.h"
#include "tensor/tensor.h"

namespace mantissa {

// How well probabilities of 1 order examples of 0 and 1.
struct RankingScore {
  double auc = 0;                // of the receiver operating characteristic; NaN without both
  double average_precision = 0;  // over the thresholds; 0 without ones
};

// How well the second of two classes is found.
struct BinaryScore {
  RankingScore ranking = {};
  double precision = 0, recall = 0, f1 = 0;  // 0 where there is nothing to divide by
};

// How near guesses of classes in an order are.
struct OrdinalScore {
  double mae = 0;    // mean of |guess - class|
  double kappa = 0;  // Cohen's, weighted by (guess - class)^2; NaN if all are of one class
};

// How well labels are found that do not exclude one another.
struct LabelsScore {
  double micro_f1 = 0, macro_f1 = 0;
  double mean_average_precision = 0;
  // One entry for each label. NaN: it was not measured.
  std::vector<double> accuracy = {}, f1 = {}, average_precision = {}, auc = {};
};

// Scores by the names that they have in JSON.
using NamedScores = std::vector<std::pair<const char*, double>>;
NamedScores named_scores(const BinaryScore& score);
NamedScores named_scores(const OrdinalScore& score);
NamedScores named_scores(const LabelsScore& score);  // over all labels

// An example's logit, or any other number that grows with the probability, and whether it is 1.
struct ScoredLabel {
  double score = 0;
  bool is_one = false;
};

// A number of an output.
double output_at(const Tensor& outputs, int64_t i);

// Probabilities [rows][classes] of a classifier's logits: of wide integers by the softmax kernel.
std::vector<double> probabilities_of(const Tensor& logits, const kernels::SoftmaxKernels& softmax);

// An example with a high loss.
struct WorstPrediction {
  int64_t index = 0;  // of the example in its split
  int label = 0, guess = 0;
  double loss = 0;               // cross-entropy in nats, whatever the training loss
  double probability = 0;        // of the guess
  double label_probability = 0;  // of the true class
};

// From how many classes on top-5 accuracy says something.
constexpr int64_t kTop5Classes = 10;
// Up to this many classes the confusion matrix is kept: its size is the square of their number.
constexpr int64_t kConfusionClasses = 256;
// Worst predictions that are kept.
constexpr size_t kWorstPredictions = 32;

// The counts of a class, or of a label: examples that have it, guesses of it, and those that are
// both.
struct ClassCounts {
  int64_t examples = 0, guesses = 0, right = 0;
};

struct ClassificationEvaluation {
  int64_t examples = 0;
  int64_t correct = 0;               // of labels that exclude no other: all of them
  int64_t correct_in_5 = 0;          // the label is among the five largest logits
  int64_t loss_q24 = 0;              // sum, as StepTotals counts it
  double loss = 0;                   // mean, without label smoothing
  std::vector<ClassCounts> classes;  // of each class
  // [label][prediction]; empty with more than kConfusionClasses classes.
  std::vector<std::vector<int64_t>> confusion;
  std::vector<WorstPrediction> worst;   // highest loss first; of equals the lower index
  std::optional<BinaryScore> binary;    // of two classes
  std::optional<LabelsScore> labels;    // of labels that exclude no other
  bool of_places = false;               // each pixel or position of an example has a label
  std::optional<OrdinalScore> ordinal;  // of classes in an order
  // Logits, or differences of the two, above which a label or the second class is guessed. Empty: 0.
  std::vector<double> thresholds;
  // With these scores: of two classes all examples, else of each label those with a known target.
  // Of places none.
  std::vector<std::vector<ScoredLabel>> scored;

  explicit ClassificationEvaluation(int64_t class_count = 0);

  double accuracy() const { return part(correct); }
  // The mean over the classes that occur, as labels or guesses, of right / (labels + guesses -
  // right): scikit-learn's jaccard_score, macro.
  double mean_iou() const;
  // Nothing with fewer than kTop5Classes classes, or if they are labels.
  std::optional<double> top5_accuracy() const;

  // Adds a batch: its logits (int32 or float, [N, ..., classes]), labels, numbers of its examples,
  // and its sum of losses. The mean loss is left to the caller, who knows its unit. `examples` are
  // rows of logits: with several for each example no worst predictions are kept. `guesses`, one for
  // each row, are guessed in place of the classes with the largest logits, if there are any.
  void add(const Tensor& logits, const int32_t* labels, std::span<const uint32_t> numbers,
           int64_t batch_loss_q24, const kernels::SoftmaxKernels& softmax,
           std::span<const int> guesses = {});

 private:
  double part(int64_t count) const {
    return examples == 0 ? 0 : static_cast<double>(count) / static_cast<double>(examples);
  }
};

// For a class: the fraction of its examples that were found (recall, the accuracy of the class),
// and the fraction of its guesses that were right (precision). NaN if there are none.
struct ClassScore {
  double recall = 0, precision = 0;
};
ClassScore score_of(const ClassCounts& counts);
// The intersection of its examples and guesses over their union.
double iou_of(const ClassCounts& counts);

// The counts of each class in a confusion matrix.
std::vector<ClassCounts> class_counts(const std::vector<std::vector<int64_t>>& confusion);

// evaluation.json (docs/run-folder.md). `seconds` only if the time belongs to the result.
std::string to_json(const ClassificationEvaluation& evaluation, const std::string& data,
                    const std::vector<std::string>& class_names, const std::string& model_sha256,
                    std::optional<double> seconds = std::nullopt);

}  // namespace mantissa
