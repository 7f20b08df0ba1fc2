#include "train/classification.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "data/length_buckets.h"
#include "data/ordered_batches.h"
#include "data/wordpiece.h"
#include "kernels/kernel_table.h"
#include "ops/fp32/fp32.h"
#include "ops/wide_values.h"
#include "train/regression.h"

namespace mantissa {
namespace {

// Outputs of a network that misses each target by as much have learned nothing of use.
constexpr double kHighSquaredError = 10;

Score score_of(const Evaluation& evaluation) {
  return {.examples = evaluation.examples,
          .correct = evaluation.correct,
          .loss_q24 = evaluation.loss_q24,
          .loss = evaluation.loss};
}

std::string describe(const Score& score) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "loss %.4f, accuracy %.2f %%", score.loss,
                100 * score.accuracy());
  return text.data();
}

}  // namespace

Result<Evaluation> evaluate(Programs& programs, BatchSource& batches,
                            const ClassifierOptions& options, const EvaluationObserver& observer) {
  Evaluation evaluation(options.classes);
  const kernels::KernelTable table = kernels::select_kernels(options.isa);
  const auto add = [&](const Batch& batch, const StepResult& step) -> Status {
    const auto* labels = static_cast<const int32_t*>(batch.find(kLabelTensor));
    evaluation.add(programs.outputs(), labels, batch.examples, step.loss_q24, *table.softmax);
    if (observer == nullptr || observer(evaluation.examples)) return {};
    return make_error(ErrorCode::kInterrupted, "interrupted while evaluating");
  };
  MANTISSA_RETURN_IF_ERROR(infer_all(programs, batches, add));
  evaluation.loss = ops::loss_value(options.loss, evaluation.loss_q24) /
                    static_cast<double>(std::max<int64_t>(1, evaluation.examples));
  return evaluation;
}

double guessing_loss(ops::LossKind loss, int64_t classes) {
  const auto count = static_cast<double>(std::max<int64_t>(2, classes));
  // 1 / classes for each class: misses one target by the rest to 1, the others by itself.
  return loss == ops::LossKind::kSquaredError ? (count - 1) / (count * count) : std::log(count);
}

Task classification_task(const ClassifierOptions& options, std::string data,
                         std::vector<std::string> class_names) {
  Task task;
  task.loss = options.loss;
  task.guessing_loss = guessing_loss(options.loss, options.classes);
  // A squared error grows with the square of what outputs miss.
  task.high_loss =
      options.loss == ops::LossKind::kSquaredError ? kHighSquaredError : task.guessing_loss;
  task.describe = describe;
  task.measure = [options](Programs& programs, BatchSource& batches,
                           const EvaluationObserver& observer) -> Result<Score> {
    MANTISSA_ASSIGN(const Evaluation evaluation, evaluate(programs, batches, options, observer));
    return score_of(evaluation);
  };
  task.report = [options, data = std::move(data), class_names = std::move(class_names)](
                    Programs& programs, BatchSource& batches, const std::string& model_sha256,
                    const EvaluationObserver& observer) -> Result<Task::Report> {
    MANTISSA_ASSIGN(const Evaluation evaluation, evaluate(programs, batches, options, observer));
    return Task::Report{score_of(evaluation), to_json(evaluation, data, class_names, model_sha256)};
  };
  return task;
}

namespace {

// Of a network of texts the examples are tokens (ImageSet); else none.
ImageSet texts_of(const FrozenNetwork& network, const void* examples, int64_t count) {
  ImageSet texts;
  const auto& table = network.description.table;
  if (!table || !table->text) return texts;
  const auto* tokens = static_cast<const int16_t*>(examples);
  texts.count = count;
  texts.features = table->features();
  texts.numbers.assign(tokens, tokens + count * texts.features);
  texts.padding = table->text->tokenizer->padding();
  return texts;
}

// The tokens that a batch of texts is padded to: the least of the lengths that all fit into; 0
// where it is the whole sequence.
int64_t padded_length(const FrozenDescription& description, const Examples& texts) {
  const BatchLengths lengths = text_lengths(description, kTextLengths);
  if (lengths.empty()) return 0;
  int64_t longest = 0;
  for (int64_t i = 0; i < texts.count; ++i) {
    longest = std::max<int64_t>(longest, texts.length(static_cast<uint32_t>(i)));
  }
  const int64_t length = lengths[static_cast<size_t>(bucket_of(lengths, longest))];
  return length < lengths.back() ? length : 0;
}

}  // namespace

Result<Classified> classify(FrozenNetwork& network, const void* examples, int64_t count,
                            ThreadPool& pool, Isa isa) {
  const kernels::KernelTable table = kernels::select_kernels(isa);
  const ImageSet texts = texts_of(network, examples, count);
  const Value& input = network.graph.values[network.graph.inputs[0]];
  const TensorSpec spec{input.name, input.type, input.shape};
  const Examples all = texts.padding ? labelled_text_examples(texts)
                                     : array_examples(count, {{spec, examples}});
  const int64_t whole = texts.features;
  const int64_t length = texts.padding ? padded_length(network.description, all) : 0;
  std::optional<Graph> shorter;
  if (length > 0) {
    MANTISSA_ASSIGN(shorter, with_length(network.graph, whole, length));
  }
  const Graph& graph = shorter ? *shorter : network.graph;
  MANTISSA_ASSIGN(
      const Program program,
      compile_inference(graph, network.description.format, count, false, {&table, pool.size()}));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(program.arena_bytes));
  Programs programs(network.graph, network.state, {pool, arena.span(), isa});
  programs.add(graph, program);
  MANTISSA_ASSIGN(OrderedBatches batches,
                  OrderedBatches::create_by_length(
                      all, count, length > 0 ? BatchLengths{length, whole} : BatchLengths{}));
  MANTISSA_RETURN_IF_ERROR(programs.infer(batches.next()));
  const Tensor logits = programs.outputs();
  Classified result;
  const FrozenDescription& description = network.description;
  if (description.options.loss != ops::LossKind::kRegression) {
    result.probabilities = probabilities_of(logits, *table.softmax);
  } else if (description.table) {
    for (int64_t i = 0; i < count; ++i) {
      result.numbers.push_back(predicted_number(logits, i, description.table->target));
    }
  }
  if (logits.type == DataType::kFloat) return result;
  const ops::Mantissas mantissas(logits);
  for (int64_t i = 0; i < logits.count(); ++i) {
    // At the largest exponent, where rows have exponents of their own.
    const int shift = *logits.exponent - logits.row_exponent(i / logits.shape.last());
    result.mantissas.push_back(static_cast<int32_t>(rescale_rne(mantissas[i], shift)));
  }
  result.exponent = *logits.exponent;
  return result;
}

}  // namespace mantissa
