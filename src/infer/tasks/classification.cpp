#include "infer/tasks/classification.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "data/batches/length_buckets.h"
#include "data/batches/ordered_batches.h"
#include "infer/tasks/label_scores.h"
#include "infer/tasks/regression.h"
#include "kernels/kernel_table.h"
#include "kernels/softmax/softmax.h"
#include "ops/wide_values.h"

namespace mantissa {
namespace {

// Outputs of a network that misses each target by as much have learned nothing of use.
constexpr double kHighSquaredError = 10;

std::string describe_classes(const Score& score) {
  std::array<char, 128> text{};
  const int length = std::snprintf(text.data(), text.size(), "loss %.4f, accuracy %.2f %%",
                                   score.loss, 100 * score.accuracy());
  char* const rest = text.data() + length;
  const size_t room = text.size() - static_cast<size_t>(length);
  if (score.ranking) std::snprintf(rest, room, ", AUC %.4f", score.ranking->auc);
  if (score.mean_iou) std::snprintf(rest, room, ", mean IoU %.4f", *score.mean_iou);
  if (score.labels) {
    std::snprintf(rest, room, ", micro F1 %.4f, macro F1 %.4f", score.labels->micro_f1,
                  score.labels->macro_f1);
  }
  return text.data();
}

// Two classes by one logit z are two classes by the logits 0 and z: their softmax is the sigmoid of
// z.
class OneLogit {
 public:
  void add(const Tensor& logits, const int32_t* labels) {
    for (int64_t n = 0; n < logits.count(); ++n) {
      scored_.push_back({output_at(logits, n), labels[n] == 1});
    }
  }
  // Both, valid until the next call.
  Tensor logits(const Tensor& logits) {
    const int64_t count = logits.count();
    pairs_.assign(static_cast<size_t>(2 * count), 0);  // as a float it is 0, too
    for (int64_t n = 0; n < count; ++n) pairs_[2 * n + 1] = logits.as<int32_t>()[n];
    Tensor both = logits;
    both.shape = Shape{count, 2};
    both.data = pairs_.data();
    return both;
  }
  RankingScore score() { return ranking_score(std::move(scored_)); }

 private:
  std::vector<int32_t> pairs_;
  std::vector<ScoredLabel> scored_;
};

// Labels that exclude no other: each is guessed if its logit is above 0.
class LabelCounts {
 public:
  explicit LabelCounts(ClassificationEvaluation& evaluation)
      : evaluation_(evaluation), known_(evaluation.classes.size(), 0) {
    evaluation_.confusion.clear();
  }
  void add(const Tensor& logits, const kernels::SigmoidTargets& targets) {
    for (int64_t n = 0; n < logits.shape[0]; ++n) {
      int64_t known = 0, right = 0;
      for (int64_t k = 0; k < targets.outputs; ++k) {
        const int32_t target = targets.at(n, k);
        if (target < 0) continue;
        const bool guess = output_at(logits, n * targets.outputs + k) > 0;
        ClassCounts& counts = evaluation_.classes[static_cast<size_t>(k)];
        counts.examples += target;
        counts.guesses += guess;
        counts.right += guess && target == 1;
        ++known_[static_cast<size_t>(k)];
        ++known;
        right += guess == (target == 1);
      }
      ++evaluation_.examples;
      evaluation_.correct += known > 0 && right == known;
    }
  }
  LabelsScore score() const { return labels_score(evaluation_.classes, known_); }

 private:
  ClassificationEvaluation& evaluation_;
  std::vector<int64_t> known_;
};

bool has_labels(const ClassifierOptions& options) {
  return options.loss == ops::LossKind::kSigmoids && !options.one_logit;
}

// Whether a batch has a label for each output of an example.
bool is_by_output(const Batch& batch) {
  return std::any_of(batch.specs.begin(), batch.specs.end(), [](const TensorSpec& spec) {
    return spec.name == kLabelTensor && spec.shape.rank > 0;
  });
}

// Probabilities of each label, [count][labels].
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
  for (int64_t n = 0; n < logits.shape[0]; ++n) {
    softmax.sigmoid_probabilities({.logits = logits.as<int32_t>(),
                                   .targets = {.outputs = logits.shape.last()},
                                   .exponent = logits.row_exponent(n)},
                                  q30.data(), n, n + 1);
  }
  for (const int32_t probability : q30) result.push_back(probability * 0x1p-30);
  return result;
}

}  // namespace

Result<ClassificationEvaluation> evaluate(Programs& programs, BatchSource& batches,
                                          const ClassifierOptions& options,
                                          const EvaluationObserver& observer) {
  ClassificationEvaluation evaluation(options.classes);
  const kernels::KernelTable table = kernels::select_kernels(options.isa);
  OneLogit two_classes;
  std::optional<LabelCounts> found;
  if (has_labels(options)) found.emplace(evaluation);
  const auto add = [&](const Batch& batch, const StepResult& step) {
    const auto* labels = static_cast<const int32_t*>(batch.find(kLabelTensor));
    const Tensor logits = programs.outputs();
    if (found) {
      found->add(logits, {labels, options.classes, is_by_output(batch)});
      evaluation.loss_q24 = accumulate(evaluation.loss_q24, step.loss_q24);
    } else {
      if (options.one_logit) two_classes.add(logits, labels);
      evaluation.add(options.one_logit ? two_classes.logits(logits) : logits, labels,
                     batch.examples, step.loss_q24, *table.softmax);
    }
  };
  MANTISSA_RETURN_IF_ERROR(evaluate_all(programs, batches, observer, add));
  evaluation.loss = ops::loss_value(options.loss, evaluation.loss_q24) /
                    static_cast<double>(std::max<int64_t>(1, evaluation.examples));
  if (options.one_logit) evaluation.ranking = two_classes.score();
  if (found) evaluation.labels = found->score();
  return evaluation;
}

double guessing_loss(ops::LossKind loss, int64_t classes) {
  const auto count = static_cast<double>(std::max<int64_t>(2, classes));
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
  task.evaluate = [options, data = std::move(data), class_names = std::move(class_names)](
                      Programs& programs, BatchSource& batches,
                      const EvaluationObserver& observer) -> Result<Task::Report> {
    MANTISSA_ASSIGN(const ClassificationEvaluation evaluation,
                    evaluate(programs, batches, options, observer));
    return Task::Report{
        .score = {.examples = evaluation.examples,
                  .correct = evaluation.correct,
                  .loss_q24 = evaluation.loss_q24,
                  .loss = evaluation.loss,
                  .ranking = evaluation.ranking,
                  .labels = evaluation.labels,
                  .mean_iou = evaluation.of_places ? std::optional(evaluation.mean_iou())
                                                   : std::nullopt},
        .top5_accuracy = evaluation.top5_accuracy(),
        .confusion = evaluation.confusion,
        .json = [=](const std::string& model_sha256, std::optional<double> seconds) {
          return to_json(evaluation, data, class_names, model_sha256, seconds);
        }};
  };
  return task;
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

}  // namespace

Result<Classified> classify(FrozenNetwork& network, const Examples& examples, ThreadPool& pool,
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
  MANTISSA_RETURN_IF_ERROR(programs.infer(batches.next()));
  const Tensor logits = programs.outputs();
  Classified result;
  const FrozenDescription& description = network.description;
  if (description.options.loss != ops::LossKind::kRegression) {
    const ModelOptions& options = description.options;
    const bool labels = options.loss == ops::LossKind::kSigmoids && !options.one_logit;
    OneLogit two;
    result.probabilities =
        labels ? label_probabilities(logits, *table.softmax)
               : probabilities_of(options.one_logit ? two.logits(logits) : logits, *table.softmax);
  } else {
    const Target target = target_of(description);
    for (int64_t i = 0; i < count; ++i) {
      result.numbers.push_back(predicted_number(logits, i, target));
    }
  }
  if (logits.type == DataType::kFloat) return result;
  const ops::Mantissas mantissas(logits);
  for (int64_t i = 0; i < logits.count(); ++i) {
    // At the largest exponent, if rows have their own exponents.
    const int shift = *logits.exponent - logits.row_exponent(i / logits.shape.last());
    result.mantissas.push_back(static_cast<int32_t>(rescale_rne(mantissas[i], shift)));
  }
  result.exponent = *logits.exponent;
  return result;
}

}  // namespace mantissa
