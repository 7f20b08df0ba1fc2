#include "start/language/quantise.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include "base/sizes.h"
#include "formats/json_tree.h"
#include "networks/imported_network.h"
#include "runtime/weight_blocks.h"
#include "start/language/blocks.h"
#include "start/language/float_model.h"
#include "start/language/sequence_runner.h"
#include "start/language/sequences.h"

namespace mantissa {
namespace {

constexpr int64_t kCalibrationTokens = 4096, kHeldOutTokens = 2048;

// The layers of a block of the network, by the values that they read.
struct LayersOfValue {
  const char* value;
  std::array<const char*, 3> layers;
};
constexpr LayersOfValue kLayersOfValues[] = {{"norm1", {"query", "key", "value"}},
                                             {"attention", {"project"}},
                                             {"norm2", {"gate", "up"}},
                                             {"multiply", {"down"}}};

constexpr int64_t kLayersOfABlock = 7;

// "3.42 %"
std::string percent_text(double part) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f %%", 100 * part);
  return text.data();
}

class LanguageQuantiser {
 public:
  LanguageQuantiser(const LanguageQuantisation& settings, const TrainObserver& observer,
                    FloatLanguageModel& model, LanguageBlocks blocks)
      : settings_(settings),
        observer_(observer),
        model_(model),
        pool_(settings.threads),
        blocks_(std::move(blocks)) {}

  Result<QuantisedLanguageModel> quantise() {
    MANTISSA_RETURN_IF_ERROR(load_sequences());
    MANTISSA_RETURN_IF_ERROR(check_memory());
    tell_smaller_groups();
    MANTISSA_ASSIGN(result_.loss_before, held_out_loss());
    blocks_.pack_tables();
    MANTISSA_RETURN_IF_ERROR(embed());
    for (int64_t i = 1; i <= model_.sizes.layers; ++i) {
      MANTISSA_RETURN_IF_ERROR(quantise_block("block" + std::to_string(i)));
    }
    MANTISSA_ASSIGN(result_.loss_after, held_out_loss());
    MANTISSA_RETURN_IF_ERROR(write());
    return std::move(result_);
  }

 private:
  const Node& node(const std::string& name) const {
    return *std::ranges::find(model_.graph.nodes, name, &Node::name);
  }
  int value(const std::string& name) const { return node(name).outputs[0]; }
  // The residual stream that a block reads.
  int stream_before(const std::string& block) const { return node(block + ".norm1").inputs[0]; }

  Status load_sequences() {
    const TextOptions options = {.sequence = model_.sequence(),
                                 .tokens = model_.vocabulary->tokens(),
                                 .known = model_.vocabulary};
    MANTISSA_ASSIGN(const Text text, load_text(settings_.data, options));
    for (const std::string& note : text.notes) tell_message(observer_, note);
    text_sha256_ = text.sha256;
    const auto of_tokens = [&](int64_t tokens) {
      return std::max<int64_t>(1, tokens / options.sequence);
    };
    calibration_ = even_sequences(
        text.vocabulary, text.train, options,
        settings_.calibration > 0 ? settings_.calibration : of_tokens(kCalibrationTokens));
    held_out_ = even_sequences(text.vocabulary, text.test, options, of_tokens(kHeldOutTokens));
    result_.calibration_tokens = count_positions(calibration_);
    result_.held_out_tokens = count_positions(held_out_);
    return {};
  }

  NetworkPart inputs_of_layers(const std::string& block) const {
    NetworkPart part{.given = {stream_before(block)}};
    for (const LayersOfValue& each : kLayersOfValues) {
      part.results.push_back(value(block + "." + each.value));
    }
    return part;
  }

  // The network in fp32 is there all the time: first beside its file, then beside all else.
  Status check_memory() {
    const auto arena = [&](const NetworkPart& part) {
      return SequenceRunner::predict_bytes(model_.graph, part, settings_.threads, settings_.isa);
    };
    MANTISSA_ASSIGN(const int64_t losses, arena({}));
    const NetworkPart inputs = inputs_of_layers("block1");
    MANTISSA_ASSIGN(const int64_t values, arena(inputs));
    int64_t products = 0;
    for (const int each : inputs.results) {
      products += quantise::InputProducts::predict_bytes(
          model_.graph.values[static_cast<size_t>(each)].shape.last(), model_.sequence());
    }
    const int64_t streams = 2 * std::ssize(calibration_) * model_.sequence() *
                            model_.sizes.channels * int64_t{sizeof(float)};
    MemoryPlan plan;
    plan.items = {{"network in fp32", model_.state.layout().bytes},
                  {"values of sequences", std::max(losses, values)},
                  {"residual streams", streams},
                  {"products of inputs", products},
                  {"weights in blocks", 2 * blocks_.bytes() + 2 * blocks_.largest_layer()}};
    MemoryPlan reading;
    reading.items = {plan.items[0], {"its file", model_.file_bytes}};
    reading.advice = "a smaller network needs less";
    plan.advice = "fewer --threads, or a smaller --calibration, need less";
    const MemoryPlan& most = reading.peak_bytes() > plan.peak_bytes() ? reading : plan;
    MANTISSA_RETURN_IF_ERROR(check_budget(most, settings_.memory_budget));
    tell_message(observer_, "memory: " + format_bytes(most.peak_bytes()) + " at most, of which " +
                                format_bytes(plan.items[0].bytes) + " are the network in fp32");
    return {};
  }

  void tell_smaller_groups() const {
    if (blocks_.smaller_groups() == 0) return;
    tell_message(observer_, std::to_string(blocks_.smaller_groups()) +
                                " layers get smaller groups: their rows are no multiple of " +
                                std::to_string(block_weights(settings_.kind)));
  }

  SequenceRunner::Inputs inputs(const std::vector<TokenSequence>& sequences) const {
    return [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      std::vector<const void*> list = {sequences[at].tokens.data(), sequences[at].labels.data()};
      if (!streams_.empty() && &sequences == &calibration_) list.push_back(streams_[at].data());
      return list;
    };
  }

  Result<double> held_out_loss() {
    MANTISSA_ASSIGN(SequenceRunner runner,
                    SequenceRunner::create(model_.graph, model_.state, {}, pool_, settings_.isa));
    StepResult all;
    const auto take = [&](int64_t, const Executor&, const StepResult& result) { all.add(result); };
    MANTISSA_RETURN_IF_ERROR(runner.run(std::ssize(held_out_), inputs(held_out_), take));
    return all.loss;
  }

  // The residual stream of all sequences becomes a value of the network.
  Status advance(const NetworkPart& part) {
    MANTISSA_ASSIGN(SequenceRunner runner,
                    SequenceRunner::create(model_.graph, model_.state, part, pool_, settings_.isa));
    std::vector<std::vector<float>> next(calibration_.size());
    const auto take = [&](int64_t i, const Executor& done, const StepResult&) {
      const Tensor stream = done.output(0);
      next[static_cast<size_t>(i)].assign(stream.as<float>(), stream.as<float>() + stream.count());
    };
    MANTISSA_RETURN_IF_ERROR(runner.run(std::ssize(calibration_), inputs(calibration_), take));
    streams_ = std::move(next);
    return {};
  }

  Status embed() { return advance({.results = {value("embedding")}}); }

  Result<std::vector<quantise::InputProducts>> products_of(const std::string& block) {
    const NetworkPart part = inputs_of_layers(block);
    std::vector<quantise::InputProducts> products;
    for (const int each : part.results) {
      products.emplace_back(model_.graph.values[static_cast<size_t>(each)].shape.last());
    }
    MANTISSA_ASSIGN(SequenceRunner runner,
                    SequenceRunner::create(model_.graph, model_.state, part, pool_, settings_.isa));
    const auto take = [&](int64_t i, const Executor& done, const StepResult&) {
      const int64_t rows = calibration_[static_cast<size_t>(i)].positions;
      for (size_t v = 0; v < products.size(); ++v) {
        const int64_t count = rows * products[v].features();
        products[v].add({done.output(static_cast<int>(v)).as<float>(), static_cast<size_t>(count)},
                        pool_);
      }
    };
    MANTISSA_RETURN_IF_ERROR(runner.run(std::ssize(calibration_), inputs(calibration_), take));
    return products;
  }

  Status quantise_block(const std::string& block) {
    MANTISSA_ASSIGN(std::vector<quantise::InputProducts> products, products_of(block));
    for (size_t v = 0; v < products.size(); ++v) {
      const LayersOfValue& own = kLayersOfValues[v];
      auto factor = std::move(products[v]).factor(pool_);
      if (!factor.ok()) return failed(block + "." + own.value + ": " + factor.error().message);
      for (const char* layer : own.layers) {
        if (layer == nullptr) continue;
        MANTISSA_RETURN_IF_ERROR(quantise_layer(block + "." + layer, *factor));
      }
      *factor = {};
    }
    return advance({.results = {value(block + ".add2")}, .given = {stream_before(block)}});
  }

  Status quantise_layer(const std::string& name, const quantise::InputFactor& inputs) {
    const int parameter = node(name).parameters[0];
    const BlockKind kind = blocks_.kind(parameter);
    const Shape& shape = model_.graph.parameters[static_cast<size_t>(parameter)].shape;
    const quantise::BlockWeights rounded =
        quantise::round_to_blocks({.weights = model_.numbers(parameter),
                                   .rows = shape[0],
                                   .kind = kind,
                                   .method = settings_.method},
                                  inputs, pool_);
    blocks_.set(parameter, packed_blocks(kind, rounded.grids, rounded.steps));
    result_.layers.push_back({name, kind, rounded.nearest_error, rounded.error});
    TrainEvent event;
    event.kind = TrainEventKind::kMessage;
    event.step = std::ssize(result_.layers);
    event.steps = model_.sizes.layers * kLayersOfABlock;
    event.message = name + ": " + block_kind_name(kind) + ", error of outputs " +
                    percent_text(rounded.error) + " (to nearest " +
                    percent_text(rounded.nearest_error) + ")";
    if (tell(observer_, event)) return {};
    return make_error(ErrorCode::kInterrupted, "interrupted; nothing was written");
  }

  Status write() {
    std::map<std::string, std::string> entries = {
        {kTokenizerEntry, model_.vocabulary->tokenizer_entry()},
        {kBlocksEntry, "{\"kind\": " + json_quoted(block_kind_name(settings_.kind)) +
                           ", \"method\": " + json_quoted(settings_.method_name) + ", \"text\": " +
                           json_quoted(settings_.data) + ", \"sha256\": \"" + text_sha256_ +
                           "\", \"tokens\": " + std::to_string(result_.calibration_tokens) + "}"}};
    if (!model_.smoothed.empty()) entries[kSmoothedEntry] = model_.smoothed;
    MANTISSA_ASSIGN(result_.blocks, blocks_.write(settings_.out, settings_.from, entries));
    return {};
  }

  const LanguageQuantisation& settings_;
  const TrainObserver& observer_;
  FloatLanguageModel& model_;
  ThreadPool pool_;
  QuantisedLanguageModel result_;
  std::string text_sha256_;
  std::vector<TokenSequence> calibration_, held_out_;
  std::vector<std::vector<float>> streams_;  // of the calibration's sequences
  LanguageBlocks blocks_;
};

}  // namespace

Result<QuantisedLanguageModel> quantise_language_model(const LanguageQuantisation& settings,
                                                       const TrainObserver& observer) {
  MANTISSA_ASSIGN(FloatLanguageModel model, load_float_language_model(settings.from));
  auto blocks = LanguageBlocks::choose(model, settings.kind, settings.wide);
  if (!blocks.ok()) return invalid_input(settings.from + ": " + blocks.error().message);
  return LanguageQuantiser(settings, observer, model, std::move(*blocks)).quantise();
}

}  // namespace mantissa
