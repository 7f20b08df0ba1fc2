#include "infer/tasks/classification.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "data/batches/length_buckets.h"
#include "data/batches/ordered_batches.h"
#include "infer/tasks/label_scores.h"
#include "infer/tasks/label_sequences.h"
#include "infer/tasks/regression.h"
#include "kernels/kernel_table.h"
#include "kernels/softmax/softmax.h"
#include "networks/network.h"
#include "numerics/rounding.h"
#include "ops/attributes.h"
#include "ops/losses/ctc.h"
#include "ops/wide_values.h"

namespace mantissa {
namespace {

// Outputs of a network that misses each target by as much have learned nothing of use.
constexpr double kHighSquaredError = 10;

std::string describe_classes(const Score& score) {
  std::string text;
  const auto add = [&](const char* format, auto... numbers) {
    std::array<char, 128> part{};
    std::snprintf(part.data(), part.size(), format, numbers...);
    text += part.data();
  };
  add("loss %.4f, accuracy %.2f %%", score.loss, 100 * score.accuracy());
  if (score.binary) add(", AUC %.4f, F1 %.4f", score.binary->ranking.auc, score.binary->f1);
  if (score.ordinal) {
    add(", rank error %.4f, kappa %.4f", score.ordinal->mae, score.ordinal->kappa);
  }
  if (score.mean_iou) add(", mean IoU %.4f", *score.mean_iou);
  if (score.labels) {
    add(", micro F1 %.4f, macro F1 %.4f", score.labels->micro_f1, score.labels->macro_f1);
  }
  return text;
}

// Two classes by one logit z are two classes by the logits 0 and z: their softmax is the sigmoid of
// z.
class OneLogit {
 public:
  // Both, valid until the next call.
  Tensor logits(const Tensor& logits) {
    const int64_t count = logits.count();  // of one for each example, or place of an example
    pairs_.assign(static_cast<size_t>(2 * count), 0);  // as a float it is 0, too
    for (int64_t n = 0; n < count; ++n) pairs_[2 * n + 1] = logits.as<int32_t>()[n];
    Tensor both = logits;
    both.shape = Shape{count, 2};
    both.data = pairs_.data();
    return both;
  }

 private:
  std::vector<int32_t> pairs_;
};

// Rows of logits: one for each example, or for each place of an example.
int64_t rows_of(const Tensor& logits) { return logits.count() / logits.shape.last(); }

// By how much the logit of the second of two classes is the larger, in each row.
std::vector<double> second_scores(const Tensor& both) {
  std::vector<double> scores;
  for (int64_t n = 0; n < rows_of(both); ++n) {
    scores.push_back(output_at(both, 2 * n + 1) - output_at(both, 2 * n));
  }
  return scores;
}

// Adds a batch of two classes by two logits.
void add_two_classes(const Tensor& both, const int32_t* labels, const Batch& batch,
                     int64_t loss_q24, const kernels::SoftmaxKernels& softmax,
                     ClassificationEvaluation& evaluation) {
  const std::vector<double> scores = second_scores(both);
  std::vector<int> guesses;
  evaluation.scored.resize(1);
  for (size_t n = 0; n < scores.size(); ++n) {
    evaluation.scored[0].push_back({scores[n], labels[n] == 1});
    if (evaluation.thresholds.empty()) continue;
    guesses.push_back(scores[n] > evaluation.thresholds[0] ? 1 : 0);
  }
  evaluation.add(both, labels, batch.examples, loss_q24, softmax, guesses);
}

// Adds a batch of labels that exclude no other: each is guessed if its logit is above its
// threshold. Places are too many to keep a score of each.
void add_labels(const Tensor& logits, const kernels::SigmoidTargets& targets,
                ClassificationEvaluation& evaluation) {
  for (int64_t n = 0; n < rows_of(logits); ++n) {
    int64_t known = 0, right = 0;
    for (int64_t k = 0; k < targets.outputs; ++k) {
      const auto label = static_cast<size_t>(k);
      const int32_t target = targets.at(n, k);
      if (target < 0) continue;
      const double logit = output_at(logits, n * targets.outputs + k);
      const double threshold = evaluation.thresholds.empty() ? 0 : evaluation.thresholds[label];
      const bool guess = logit > threshold;
      if (!evaluation.of_places) evaluation.scored[label].push_back({logit, target == 1});
      ClassCounts& counts = evaluation.classes[label];
      counts.examples += target;
      counts.guesses += guess;
      counts.right += guess && target == 1;
      ++known;
      right += guess == (target == 1);
    }
    if (known == 0) continue;
    ++evaluation.examples;
    evaluation.correct += right == known;
  }
}

// The class of ranked logits [classes - 1]: how many are above 0.
int rank_of(const Tensor& logits, int64_t row) {
  const int64_t outputs = logits.shape.last();
  int rank = 0;
  for (int64_t k = 0; k < outputs; ++k) rank += output_at(logits, row * outputs + k) > 0;
  return rank;
}

// Adds a batch of classes in an order.
void add_ranks(const Tensor& logits, const int32_t* labels,
               std::vector<std::pair<int, int>>& labels_and_guesses,
               ClassificationEvaluation& evaluation) {
  for (int64_t n = 0; n < rows_of(logits); ++n) {
    if (labels[n] < 0) continue;
    const int label = labels[n], guess = rank_of(logits, n);
    labels_and_guesses.emplace_back(label, guess);
    ++evaluation.examples;
    ++evaluation.classes[static_cast<size_t>(label)].examples;
    ++evaluation.classes[static_cast<size_t>(guess)].guesses;
    evaluation.classes[static_cast<size_t>(label)].right += guess == label;
    evaluation.correct += guess == label;
    if (evaluation.confusion.empty()) continue;
    ++evaluation.confusion[static_cast<size_t>(label)][static_cast<size_t>(guess)];
  }
}

// A sum over the rows that count, as if all did: scores are compared over as many.
int64_t of_all_rows(int64_t sum, int64_t counted, int64_t rows) {
  return counted == rows || counted == 0 ? sum : divide_rne(__int128{sum} * rows, counted);
}

bool has_labels(const ClassifierOptions& options) {
  return options.loss == ops::LossKind::kSigmoids && !options.one_logit;
}

// Whether a batch has a label for each output of an example.
bool is_by_output(const Batch& batch, const std::string& labels) {
  const TensorSpec* const spec = find_spec(batch.specs, labels);
  return spec != nullptr && spec->shape.rank > 0;
}

// Probabilities of each label, [rows][labels].
std::vector<double> label_probabilities(const Tensor& logits,
                                        const kernels::SoftmaxKernels& softmax) {
  std::vector<double> result;
  if (logits.type == DataType::kFloat) {
    for (int64_t i = 0; i < logits.count(); ++i) {
      result.push_back(1 / (1 + std::exp(-double{logits.as<float>()[i]})));
    }
    return result;
  }
  std::vector<int32_t> q30(static_cast<size_t>(logits.count()));
  for (int64_t n = 0; n < rows_of(logits); ++n) {
    softmax.sigmoid_probabilities({.logits = logits.as<int32_t>(),
                                   .targets = {.outputs = logits.shape.last()},
                                   .exponent = logits.row_exponent(n)},
                                  q30.data(), n, n + 1);
  }
  for (const int32_t probability : q30) result.push_back(probability * 0x1p-30);
  return result;
}

// Probabilities of classes in an order, [rows][outputs + 1], from those of being above each but the
// last. These fall from class to class; where they do not, the least so far counts.
std::vector<double> rank_probabilities(const std::vector<double>& above, int64_t outputs) {
  std::vector<double> result;
  for (size_t first = 0; first < above.size(); first += static_cast<size_t>(outputs)) {
    double before = 1;
    for (int64_t k = 0; k < outputs; ++k) {
      const double next = std::min(before, above[first + static_cast<size_t>(k)]);
      result.push_back(before - next);
      before = next;
    }
    result.push_back(before);
  }
  return result;
}

// Adds up batches. Their rows, too, with those without a label, which nothing else counts.
class RowMeasurement {
 public:
  explicit RowMeasurement(const ClassifierOptions& options)
      : options_(options),
        table_(kernels::select_kernels(options.isa)),
        labels_(options.place.labels.empty() ? kLabelTensor : options.place.labels),
        are_labels_(has_labels(options)),
        are_ranks_(options.loss == ops::LossKind::kOrdinal),
        are_two_(options.classes == 2 && !are_labels_ && !are_ranks_),
        evaluation_(options.classes) {
    evaluation_.thresholds = options.thresholds;
    if (!are_labels_) return;
    evaluation_.confusion.clear();
    evaluation_.scored.resize(static_cast<size_t>(options.classes));
  }

  void add(const Programs& programs, const Batch& batch, const StepResult& step) {
    const auto* labels = static_cast<const int32_t*>(batch.find(labels_));
    const Tensor outputs = programs.outputs(options_.place.result);
    const Tensor logits = options_.one_logit ? one_.logits(outputs) : outputs;
    evaluation_.of_places = evaluation_.of_places || rows_of(logits) > batch.count;
    rows_ += rows_of(logits);
    const int64_t loss_q24 =
        step.losses[static_cast<size_t>(options_.place.loss)].loss_q24;  // of rows that count
    if (are_labels_) {
      const bool by_output = is_by_output(batch, labels_) && !evaluation_.of_places;
      add_labels(logits, {labels, options_.classes, by_output}, evaluation_);
      evaluation_.loss_q24 = accumulate(evaluation_.loss_q24, loss_q24);
    } else if (are_ranks_) {
      add_ranks(logits, labels, ranks_, evaluation_);
      evaluation_.loss_q24 = accumulate(evaluation_.loss_q24, loss_q24);
    } else if (are_two_ && !evaluation_.of_places) {
      add_two_classes(logits, labels, batch, loss_q24, *table_.softmax, evaluation_);
    } else {
      evaluation_.add(logits, labels, batch.examples, loss_q24, *table_.softmax);
    }
  }

  ClassificationEvaluation evaluation() const {
    ClassificationEvaluation result = evaluation_;
    result.loss = ops::loss_value(options_.loss, result.loss_q24) /
                  static_cast<double>(std::max<int64_t>(1, result.examples));
    if (are_two_ && !result.scored.empty()) {
      result.binary = binary_score(result.classes[1], result.scored[0]);
    }
    if (are_ranks_) result.ordinal = ordinal_score(ranks_);
    if (are_labels_) {
      result.labels = result.of_places ? labels_score_of_places(result.classes, result.examples)
                                       : labels_score(result.classes, result.scored);
    }
    return result;
  }
  int64_t rows() const { return rows_; }

 private:
  const ClassifierOptions options_;
  const kernels::KernelTable table_;
  const std::string labels_;
  const bool are_labels_, are_ranks_, are_two_;
  ClassificationEvaluation evaluation_;
  OneLogit one_;
  std::vector<std::pair<int, int>> ranks_;  // labels and guesses
  int64_t rows_ = 0;
};

Task::Report report_on(const RowMeasurement& measurement, const std::string& data,
                       const std::vector<std::string>& class_names) {
  const ClassificationEvaluation evaluation = measurement.evaluation();
  const int64_t rows = measurement.rows();
  return Task::Report{
      .score = {.examples = rows,
                .correct = of_all_rows(evaluation.correct, evaluation.examples, rows),
                .loss_q24 = of_all_rows(evaluation.loss_q24, evaluation.examples, rows),
                .loss = evaluation.loss,
                .binary = evaluation.binary,
                .labels = evaluation.labels,
                .ordinal = evaluation.ordinal,
                .mean_iou = evaluation.of_places ? std::optional(evaluation.mean_iou())
                                                 : std::nullopt},
      .top5_accuracy = evaluation.top5_accuracy(),
      .confusion = evaluation.confusion,
      .scored = evaluation.scored,
      .json = [=](const std::string& model_sha256, std::optional<double> seconds) {
        return to_json(evaluation, data, class_names, model_sha256, seconds);
      }};
}

}  // namespace

Result<ClassificationEvaluation> evaluate(Programs& programs, BatchSource& batches,
                                          const ClassifierOptions& options,
                                          const EvaluationObserver& observer) {
  RowMeasurement measurement(options);
  const auto add = [&](const Batch& batch, const StepResult& step) {
    measurement.add(programs, batch, step);
  };
  MANTISSA_RETURN_IF_ERROR(evaluate_all(programs, batches, observer, add));
  return measurement.evaluation();
}

double guessing_loss(ops::LossKind loss, int64_t classes) {
  const auto count = static_cast<double>(std::max<int64_t>(2, classes));
  if (loss == ops::LossKind::kOrdinal) return (count - 1) * std::log(2.0);
  if (loss == ops::LossKind::kSigmoids) {
    return classes == 1 ? std::log(2.0)
                        : std::log(count) + (count - 1) * std::log(count / (count - 1));
  }
  // 1 / classes for each class: misses one target by the rest to 1, the others by itself.
  return loss == ops::LossKind::kSquaredError ? (count - 1) / (count * count) : std::log(count);
}

Task classification_task(const ClassifierOptions& options, std::string data,
                         std::vector<std::string> class_names) {
  Task task{.loss = options.loss, .describe = describe_classes};
  task.guessing_loss = guessing_loss(options.loss, options.one_logit ? 1 : options.classes);
  // A squared error grows with the square of what outputs miss; sigmoids begin with one half each.
  task.high_loss = task.guessing_loss;
  if (options.loss == ops::LossKind::kSquaredError) task.high_loss = kHighSquaredError;
  if (has_labels(options)) {
    task.high_loss = std::log(2.0) * static_cast<double>(options.classes);
  }
  task.begin = [options, data = std::move(data), class_names = std::move(class_names)] {
    const auto measurement = std::make_shared<RowMeasurement>(options);
    return Task::Measurement{
        .add = [measurement](const Programs& programs, const Batch& batch,
                             const StepResult& step) { measurement->add(programs, batch, step); },
        .report = [=] { return report_on(*measurement, data, class_names); }};
  };
  return task;
}

int guessed_class(const FrozenDescription& description, std::span<const double> logits) {
  const ModelOptions& options = description.options;
  const double threshold = description.thresholds.empty() ? 0 : description.thresholds[0];
  if (options.loss == ops::LossKind::kOrdinal) {
    return static_cast<int>(
        std::count_if(logits.begin(), logits.end(), [](double logit) { return logit > 0; }));
  }
  if (logits.size() == 1) return logits[0] > threshold ? 1 : 0;
  const bool are_two = logits.size() == 2 && threshold_count(options) == 1;
  if (are_two) return logits[1] - logits[0] > threshold ? 1 : 0;
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

bool gives_labels(const FrozenDescription& description) {
  return description.options.loss == ops::LossKind::kSigmoids && description.options.has_labels &&
         label_shape_of_places(description.network).rank == 0;
}

std::vector<int> guesses_of(const FrozenDescription& description, std::span<const double> logits) {
  if (ops::is_for_numbers(description.options.loss)) return {};
  if (const Node* const loss = loss_of_sequences(description.network)) {
    return best_path(logits, description.options.classes,
                     loss->attributes.as<ops::CtcAttributes>().blank);
  }
  std::vector<int> guesses;
  if (gives_labels(description)) {
    for (size_t i = 0; i < logits.size(); ++i) {
      const double threshold =
          i < description.thresholds.size() ? description.thresholds[i] : 0;
      if (logits[i] > threshold) guesses.push_back(static_cast<int>(i));
    }
    return guesses;
  }
  const Shape shape = label_shape_of_places(description.network);
  const auto places = static_cast<size_t>(shape.rank > 0 ? shape.count() : 1);
  const size_t classes = logits.size() / places;
  for (size_t place = 0; place < places; ++place) {
    guesses.push_back(guessed_class(description, logits.subspan(place * classes, classes)));
  }
  return guesses;
}

namespace {

// The lengths that a batch of texts is padded to: the least one that all fit into, and the
// network's own. Empty: all are whole.
BatchLengths padded_lengths(const FrozenDescription& description, const Examples& examples) {
  const BatchLengths lengths = text_lengths(description, kTextLengths);
  if (lengths.empty()) return {};
  int64_t longest = 0;
  for (int64_t i = 0; i < examples.count; ++i) {
    longest = std::max<int64_t>(longest, examples.length(static_cast<uint32_t>(i)));
  }
  const int64_t length = lengths[static_cast<size_t>(bucket_of(lengths, longest))];
  return length < lengths.back() ? BatchLengths{length, lengths.back()} : BatchLengths{};
}

// Adds the logits as they were computed.
void add_raw(const Tensor& logits, Classified& result) {
  if (logits.type == DataType::kFloat) {
    result.logits.assign(logits.as<float>(), logits.as<float>() + logits.count());
    return;
  }
  const ops::Mantissas mantissas(logits);
  for (int64_t i = 0; i < logits.count(); ++i) {
    // At the largest exponent, if rows have their own exponents.
    const int shift = *logits.exponent - logits.row_exponent(i / logits.shape.last());
    result.mantissas.push_back(static_cast<int32_t>(rescale_rne(mantissas[i], shift)));
  }
  result.exponent = *logits.exponent;
}

// The meaning of the results of an output.
Classified classified(const FrozenDescription& description, const Tensor& logits,
                      const kernels::SoftmaxKernels& softmax) {
  Classified result;
  const ModelOptions& options = description.options;
  if (!ops::is_for_numbers(options.loss)) {
    const bool labels = options.loss == ops::LossKind::kSigmoids && !options.one_logit;
    OneLogit one;
    const Tensor all = options.one_logit ? one.logits(logits) : logits;
    const bool ranks = options.loss == ops::LossKind::kOrdinal;
    result.probabilities = labels || ranks ? label_probabilities(logits, softmax)
                                           : probabilities_of(all, softmax);
    if (ranks) {
      result.probabilities = rank_probabilities(result.probabilities, logits.shape.last());
      for (int64_t n = 0; n < rows_of(logits); ++n) result.guesses.push_back(rank_of(logits, n));
    } else if (labels) {
      for (int64_t i = 0; i < logits.count(); ++i) result.scores.push_back(output_at(logits, i));
    } else if (options.classes == 2) {
      result.scores = second_scores(all);
    }
  } else {
    const Target target = target_of(description);
    for (int64_t i = 0; i < logits.count(); ++i) {
      result.numbers.push_back(predicted_number(logits, i, target));
    }
  }
  add_raw(logits, result);
  return result;
}

}  // namespace

Result<std::vector<Classified>> classify_outputs(FrozenNetwork& network,
                                                 std::span<const FrozenDescription> outputs,
                                                 const Examples& examples, ThreadPool& pool,
                                                 Isa isa) {
  const kernels::KernelTable table = kernels::select_kernels(isa);
  const int64_t count = examples.count;
  const BatchLengths lengths = padded_lengths(network.description, examples);
  std::optional<Graph> shorter;
  if (!lengths.empty()) {
    MANTISSA_ASSIGN(shorter, with_length(network.graph, lengths.back(), lengths.front()));
  }
  const Graph& graph = shorter ? *shorter : network.graph;
  MANTISSA_ASSIGN(const Program program, compile_inference(graph, network.description.format, count,
                                                           false, {&table, pool.size()}));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(program.arena_bytes));
  Programs programs(network.graph, network.state, {pool, arena.span(), isa});
  programs.add(graph, program);
  MANTISSA_ASSIGN(OrderedBatches batches,
                  OrderedBatches::create_by_length(examples, count, lengths));
  const Batch batch = batches.next();
  MANTISSA_RETURN_IF_ERROR(programs.infer(batch));
  std::vector<Classified> results;
  if (loss_of_sequences(network.description.network) != nullptr) {
    Classified& found = results.emplace_back();
    found.sequences =
        spelled_labels(programs.outputs(0), batch, spelling_of(network.description.network));
    add_raw(programs.outputs(0), found);
    return results;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int place = outputs.size() > 1 ? outputs[i].options.result : 0;
    results.push_back(classified(outputs[i], programs.outputs(place), *table.softmax));
  }
  return results;
}

std::vector<FrozenDescription> output_descriptions(const FrozenDescription& description) {
  if (description.options.outputs.empty()) return {description};
  std::vector<FrozenDescription> outputs;
  auto threshold = description.thresholds.begin();
  for (size_t i = 0; i < description.options.outputs.size(); ++i) {
    FrozenDescription& one = outputs.emplace_back();
    one.options = description.options.outputs[i];
    if (!description.thresholds.empty()) {
      const auto end = threshold + static_cast<int64_t>(threshold_count(one.options));
      one.thresholds.assign(threshold, end);
      threshold = end;
    }
    one.format = description.format;
    if (!description.table) continue;
    one.table = description.table->outputs[i];
    one.class_names = target_of(*one.table).names;
  }
  return outputs;
}

Result<Classified> classify(FrozenNetwork& network, const Examples& examples, ThreadPool& pool,
                            Isa isa) {
  const std::span<const FrozenDescription> own(&network.description, 1);
  MANTISSA_ASSIGN(std::vector<Classified> results,
                  classify_outputs(network, own, examples, pool, isa));
  return std::move(results[0]);
}

}  // namespace mantissa
