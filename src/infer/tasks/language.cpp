#include "infer/tasks/language.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/text/text.h"
#include "infer/tasks/classification.h"
#include "networks/network.h"

namespace mantissa {
namespace {

Error no_language_model(const Graph& network, const std::string& why) {
  return invalid_input("network '" + network.name + "': " + why +
                       "; a language model has the inputs 'tokens' and 'labels' (int32, "
                       "[sequence]), one output [sequence, vocabulary], and one cross-entropy that "
                       "reads it and the labels");
}

std::string describe_tokens(const Score& score) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), "loss %.4f, %.4f bits a token, perplexity %.3f",
                score.loss, score.language->bits_per_token, score.language->perplexity);
  return text.data();
}

// Adds the tokens of a batch, their loss, and how many were the likeliest.
void add_tokens(const StepResult& step, Score& score) {
  const LossTotals& loss = step.losses[0];
  score.examples += loss.counted;
  score.correct += loss.correct;
  score.loss_q24 += loss.loss_q24;
}

// The means of all batches.
void take_means(ops::LossKind loss, Score& score) {
  score.loss = ops::loss_value(loss, score.loss_q24) /
               static_cast<double>(std::max<int64_t>(1, score.examples));
  score.language = {.bits_per_token = score.loss / std::log(2.0),
                    .perplexity = std::exp(score.loss)};
}

}  // namespace

Result<LanguageOptions> language_options(const Graph& network) {
  const auto has = [&](const char* name) { return input_named(network, name) != nullptr; };
  const TextTask task = has(kSourceTensor) && has(kSourceLengthTensor) ? TextTask::kTranslation
                        : has(kSegmentTensor) && has(kLengthTensor)    ? TextTask::kMasks
                                                                       : TextTask::kNextToken;
  const bool translates = task == TextTask::kTranslation;
  const Value* tokens = input_named(network, translates ? kTranslationTensor : kTokenTensor);
  if (tokens == nullptr || tokens->shape.rank != 1) {
    return no_language_model(network, "it lacks one of its inputs");
  }
  const int64_t sequence = tokens->shape[0];
  const auto specs = specs_for(task, sequence);
  for (const TensorSpec& spec : specs) {
    const Value* input = input_named(network, spec.name.c_str());
    if (input != nullptr && input->element == Element::kIndex && input->shape == spec.shape) {
      continue;
    }
    return no_language_model(
        network, "it lacks the input '" + spec.name + "', int32 " + to_string(spec.shape));
  }
  const Shape& output = network.values[network.outputs[0]].shape;
  if (network.inputs.size() != specs.size() || network.outputs.size() != 1 || output.rank != 2 ||
      output[0] != sequence) {
    return no_language_model(network, "its inputs and outputs are others");
  }
  const auto& cross_entropy = *ops::loss_of(ops::LossKind::kCrossEntropy).op;
  const bool has_loss = network.losses.size() == 1 &&
                        network.nodes[network.losses[0]].op == &cross_entropy &&
                        network.nodes[network.losses[0]].inputs[0] == network.outputs[0];
  if (!has_loss) return no_language_model(network, "its loss is another");
  return LanguageOptions{sequence, output[1], task};
}

std::string language_json(const Score& score, const LanguageOptions& options,
                          const std::string& data, const std::string& model_sha256,
                          const std::optional<TranslationScore>& translation,
                          std::optional<double> seconds) {
  nlohmann::ordered_json json = {{"data", data},
                                 {"tokens", score.examples},
                                 {"sequence", options.sequence},
                                 {"vocabulary", options.vocabulary},
                                 {"loss", score.loss},
                                 {"bits_per_token", score.language->bits_per_token},
                                 {"perplexity", score.language->perplexity},
                                 {"accuracy", score.accuracy()},
                                 {"model_sha256", model_sha256}};
  if (score.language->bits_per_byte >= 0) json["bits_per_byte"] = score.language->bits_per_byte;
  if (translation) {
    json["bleu"] = translation->bleu;
    json["chrf"] = translation->chrf;
  }
  if (seconds) json["seconds"] = *seconds;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Task language_task(const LanguageOptions& options, std::string data) {
  const double guessing = guessing_loss(options.loss, options.vocabulary);
  Task task{.loss = options.loss,
            .reads_results = false,
            .guessing_loss = guessing,
            .high_loss = guessing,
            .describe = describe_tokens};
  task.begin = [options, data = std::move(data)] {
    const auto sums = std::make_shared<Score>();
    const auto report = [=] {
      Score score = *sums;
      take_means(options.loss, score);
      const auto json = [=](const std::string& model_sha256, std::optional<double> seconds) {
        return language_json(score, options, data, model_sha256, std::nullopt, seconds);
      };
      return Task::Report{.score = score, .json = json};
    };
    return Task::Measurement{.add = [sums](const Programs&, const Batch&,
                                           const StepResult& step) { add_tokens(step, *sums); },
                             .report = report};
  };
  return task;
}

}  // namespace mantissa
