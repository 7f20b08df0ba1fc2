#include "run/plan/run_data.h"

#include <algorithm>
#include <utility>

#include "data/batches/class_weights.h"
#include "data/datasets/readers.h"
#include "data/text/packed_conversations.h"
#include "data/text/text.h"
#include "networks/label_sequences.h"

namespace mantissa {
namespace {

Result<RunData> load_run_text(const RunConfig& config, const DatasetInfo& inspected) {
  const TextOptions options = text_options(config);
  MANTISSA_ASSIGN(Text loaded, load_text(config.data, options));
  const auto text = std::make_shared<const Text>(std::move(loaded));
  const auto examples = [&](const std::vector<Token>& part, uint64_t seed) {
    return examples_for(text->vocabulary, part, options, seed);
  };
  RunData run{.info = inspected,
              .sha256 = text->sha256,
              .augmented = examples(text->train, config.seed),
              .train = {},
              .validation = examples(text->validation, kTestMasks),
              .test = examples(text->test, kTestMasks),
              .memory = text};
  if (options.packs) {
    run.augmented = packed_answer_examples(text->train, options.sequence,
                                           padding_of(text->vocabulary)).examples;
  }
  run.train = run.augmented;
  run.tokenizer = text->vocabulary.tokenizer_entry();
  const bool is_same = text->vocabulary.names() == inspected.target.names &&
                       run.train.count == inspected.train_count &&
                       run.test.count == inspected.test_count;
  if (is_same) return run;
  return invalid_input("'" + config.data + "' has changed since the run was planned");
}

Result<Examples> augmented_examples(const RunConfig& config, const ExampleSet& train,
                                    const Target& target) {
  Examples examples = examples_of(train, config.augmentation, config.seed);
  if (!config.class_weights.any()) return examples;
  MANTISSA_ASSIGN(std::vector<int16_t> mantissas,
                  class_weight_mantissas(config.class_weights, train.labels(), target.classes));
  return with_class_weights(std::move(examples), std::move(mantissas));
}

Result<RunData> load_run_dataset(const RunConfig& config, const DatasetInfo& inspected,
                                 const RunPlan& plan) {
  MANTISSA_ASSIGN(Dataset loaded, load_dataset(config.data, true, true, data_options(config)));
  MANTISSA_RETURN_IF_ERROR(check_unchanged(inspected, loaded.info));
  for (const SplitRow& row : kSplitRows) {
    MANTISSA_RETURN_IF_ERROR(
        check_label_sequences(plan.network, loaded.*row.set, config.data + ": " + row.name));
  }
  std::string sha256 = data_sha256(loaded);
  if (loaded.validation.count == 0) {
    MANTISSA_ASSIGN(loaded.validation,
                    split_off(loaded.train, config.seed, plan.validation_examples));
  }
  DatasetInfo info = std::move(loaded.info);
  const std::vector<std::string> notes(
      info.notes.begin() + std::min(std::ssize(info.notes), std::ssize(inspected.notes)),
      info.notes.end());
  const auto data = std::make_shared<const Dataset>(std::move(loaded));
  MANTISSA_ASSIGN(Examples augmented, augmented_examples(config, data->train, info.target));
  return RunData{.info = std::move(info),
                 .sha256 = std::move(sha256),
                 .augmented = std::move(augmented),
                 .train = examples_of(data->train),
                 .validation = examples_of(data->validation),
                 .test = examples_of(data->test),
                 .channel_means = channel_means(data->train),
                 .notes = notes,
                 .memory = data};
}

}  // namespace

Result<DatasetInfo> inspect_run_data(const RunConfig& config) {
  if (config.sequence > 0) return inspect_text(config.data, text_options(config));
  return inspect_dataset(config.data, data_options(config));
}

Result<RunData> load_run_data(const RunConfig& config, const DatasetInfo& inspected,
                              const RunPlan& plan) {
  const bool has_tokens = inspected.target.kind == TargetKind::kTokens;
  return has_tokens ? load_run_text(config, inspected) : load_run_dataset(config, inspected, plan);
}

}  // namespace mantissa
