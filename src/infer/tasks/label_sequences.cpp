#include "infer/tasks/label_sequences.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "infer/programs.h"
#include "networks/network.h"
#include "ops/attributes.h"
#include "ops/losses/ctc.h"

namespace mantissa {
namespace {

// Adds up batches.
struct SequenceMeasurement {
  SpellingOptions spelling;
  SequenceScore sums = {};
  int64_t examples = 0, correct = 0, loss_q24 = 0;

  void add(const Programs& programs, const Batch& batch, const StepResult& step) {
    const TensorSpec& spec = *find_spec(batch.specs, kLabelTensor);
    const auto most = static_cast<size_t>(spec.shape.count());
    const auto* const labels = static_cast<const int32_t*>(batch.find(kLabelTensor));
    const auto found = spelled_labels(programs.outputs(0), batch, spelling);
    for (size_t n = 0; n < found.size(); ++n) {
      const std::vector<int> right = known_labels({labels + n * most, most});
      const int64_t edits = edit_distance(found[n], right);
      sums.edits += edits;
      sums.labels += std::ssize(right);
      correct += edits == 0;
    }
    examples += batch.count;
    loss_q24 += step.losses[0].loss_q24;
  }

  Score score() const {
    Score result{.examples = examples, .correct = correct, .loss_q24 = loss_q24};
    result.loss = ops::loss_value(ops::LossKind::kCtc, loss_q24) /
                  static_cast<double>(std::max<int64_t>(1, examples));
    result.sequences = sums;
    return result;
  }
};

std::string describe_sequences(const Score& score) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "loss %.4f, label error rate %.2f %%, accuracy %.2f %%",
                score.loss, 100 * score.sequences->label_error_rate(), 100 * score.accuracy());
  return text.data();
}

std::string sequences_json(const Score& score, const std::string& data,
                           const std::string& model_sha256, std::optional<double> seconds) {
  nlohmann::ordered_json json = {{"data", data},
                                 {"examples", score.examples},
                                 {"label_error_rate", score.sequences->label_error_rate()},
                                 {"edits", score.sequences->edits},
                                 {"labels", score.sequences->labels},
                                 {"accuracy", score.accuracy()},
                                 {"loss", score.loss}};
  if (seconds) json["seconds"] = *seconds;
  json["model_sha256"] = model_sha256;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

SpellingOptions spelling_of(const Graph& network) {
  const Node& loss = *loss_of_sequences(network);
  return {loss.attributes.as<ops::CtcAttributes>().blank,
          loss.inputs.size() > 2 ? network.values[loss.inputs[2]].name : ""};
}

std::vector<int> best_path(std::span<const double> logits, int64_t classes, int32_t blank) {
  std::vector<int> labels;
  int last = blank;
  for (auto row = logits.begin(); row != logits.end(); row += classes) {
    const auto found = static_cast<int>(std::max_element(row, row + classes) - row);
    if (found != last && found != blank) labels.push_back(found);
    last = found;
  }
  return labels;
}

std::vector<std::vector<int>> spelled_labels(const Tensor& logits, const Batch& batch,
                                             const SpellingOptions& options) {
  const int64_t classes = logits.shape.last(), all = logits.count() / batch.count;
  const auto* const lengths =
      static_cast<const int32_t*>(options.lengths.empty() ? nullptr : batch.find(options.lengths));
  std::vector<std::vector<int>> labels;
  std::vector<double> own;
  for (int64_t n = 0; n < batch.count; ++n) {
    own.resize(static_cast<size_t>(lengths == nullptr ? all : lengths[n] * classes));
    for (size_t i = 0; i < own.size(); ++i) {
      own[i] = output_at(logits, n * all + static_cast<int64_t>(i));
    }
    labels.push_back(best_path(own, classes, options.blank));
  }
  return labels;
}

int64_t edit_distance(std::span<const int> a, std::span<const int> b) {
  std::vector<int64_t> row(b.size() + 1);  // of the beginning of a so far to each beginning of b
  std::iota(row.begin(), row.end(), int64_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t before = std::exchange(row[0], static_cast<int64_t>(i) + 1);
    for (size_t k = 0; k < b.size(); ++k) {
      const int64_t exchanged = before + (a[i] != b[k]);
      before = row[k + 1];
      row[k + 1] = std::min({row[k + 1] + 1, row[k] + 1, exchanged});
    }
  }
  return row.back();
}

std::vector<int> known_labels(std::span<const int32_t> labels) {
  const auto end = std::find_if(labels.begin(), labels.end(), [](int32_t l) { return l < 0; });
  return {labels.begin(), end};
}

Task sequence_task(const Graph& network, const ModelOptions& options, std::string data) {
  const Shape& logits = network.values[loss_of_sequences(network)->inputs[0]].shape;
  // One path of classes that are equally likely: an example has at least one that spells it.
  const double guessing =
      static_cast<double>(logits[0]) * std::log(static_cast<double>(options.classes));
  Task task{.loss = ops::LossKind::kCtc,
            .guessing_loss = guessing,
            .high_loss = guessing,
            .describe = describe_sequences};
  task.begin = [spelling = spelling_of(network), data = std::move(data)] {
    const auto measurement = std::make_shared<SequenceMeasurement>(SequenceMeasurement{spelling});
    const auto report = [=] {
      const Score score = measurement->score();
      const auto json = [=](const std::string& model_sha256, std::optional<double> seconds) {
        return sequences_json(score, data, model_sha256, seconds);
      };
      return Task::Report{.score = score, .json = json};
    };
    return Task::Measurement{
        .add = [measurement](const Programs& programs, const Batch& batch,
                             const StepResult& step) { measurement->add(programs, batch, step); },
        .report = report};
  };
  return task;
}

}  // namespace mantissa
