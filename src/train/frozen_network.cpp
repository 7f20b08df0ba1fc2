#include "train/frozen_network.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/safetensors.h"
#include "kernels/kernel_table.h"
#include "numerics/exponent.h"
#include "ops/batch_norm.h"
#include "ops/fp32/fp32.h"
#include "ops/ops.h"
#include "train/network.h"
#include "train/state_file.h"

namespace mantissa {
namespace {

// Smallest exponent with at most kClippedPart of the counted values above it.
int chosen_exponent(std::span<const int64_t> counts) {
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  const auto allowed = static_cast<int64_t>(std::floor(static_cast<double>(total) * kClippedPart));
  int64_t above = 0;
  int bin = kHistogramBins - 1;
  while (bin > 0 && above + counts[bin] <= allowed) above += counts[bin--];
  return bin - 128;
}

bool counted(std::span<const int64_t> histogram) {
  return std::any_of(histogram.begin(), histogram.end(), [](int64_t n) { return n != 0; });
}

// Fixed exponents of all values, in the order of the calibration program.
class Exponents {
 public:
  Exponents(const Graph& graph, const State& state, const Program& program,
            const Executor& executor)
      : values_(graph.values.size(), static_cast<int16_t>(zero_exponent(8))),
        channels_(graph.values.size()) {
    for (const Instruction& instruction : program.instructions) {
      if (instruction.output.slot >= 0) choose(graph, state, executor, instruction);
    }
  }

  int16_t value(int index) const { return values_[index]; }
  const std::vector<int8_t>& channels(int index) const { return channels_[index]; }

 private:
  void choose(const Graph& graph, const State& state, const Executor& executor,
              const Instruction& instruction) {
    const int value = instruction.output.slot;
    const auto histogram = executor.histogram(value);
    const bool guarded =
        is_guardable(graph, value) && state.data<uint8_t>(state.layout().guards)[value] != 0;
    channels_[value].assign(executor.channel_exponents(value).size(), 0);
    if (!counted(histogram)) {  // passes its input's exponent on, the largest of several
      values_[value] = largest_exponent(instruction.inputs);
      return;
    }
    const std::vector<int> sums = sum_exponents(state, instruction);
    if (!guarded) {
      int chosen = chosen_exponent(histogram.first(kHistogramBins));
      if (sums.size() > 1) chosen = std::max(chosen, *std::max_element(sums.begin(), sums.end()));
      values_[value] = static_cast<int16_t>(chosen);
      return;
    }
    std::vector<int> exponents;
    for (size_t c = 0; c < channels_[value].size(); ++c) {
      const int chosen = chosen_exponent(histogram.subspan(c * kHistogramBins, kHistogramBins));
      exponents.push_back(std::max(chosen, sums[sums.size() > 1 ? c : 0]));
    }
    const int largest = *std::max_element(exponents.begin(), exponents.end());
    values_[value] = static_cast<int16_t>(largest);
    for (size_t c = 0; c < exponents.size(); ++c) {
      channels_[value][c] =
          static_cast<int8_t>(std::max(exponents[c] - largest, -kMostChannelShift));
    }
  }

  // Of the sums of a convolution, one or one per channel: a channel's exponent is not below it,
  // since there is nothing finer. Empty for instructions without weights.
  std::vector<int> sum_exponents(const State& state, const Instruction& instruction) const {
    if (instruction.parameters.empty()) return {};
    const int tensor = state.layout().parameters[instruction.parameters[0].parameter].exponent;
    const auto* weights = state.data<int16_t>(tensor);
    std::vector<int> sums;
    for (int64_t c = 0; c < state.layout().tensors[tensor].shape.count(); ++c) {
      sums.push_back(values_[instruction.inputs[0].slot] + weights[c]);
    }
    return sums;
  }

  int16_t largest_exponent(std::span<const Operand> inputs) const {
    int16_t largest = kExponentMin;
    for (const Operand& input : inputs) largest = std::max(largest, values_[input.slot]);
    return largest;
  }

  std::vector<int16_t> values_;
  std::vector<std::vector<int8_t>> channels_;
};

void copy_tensor(const State& from, int a, State& to, int b) {
  const auto source = from.bytes(a);
  std::copy(source.begin(), source.end(), to.bytes(b).begin());
}

// Copies weights and biases, computes multipliers and offsets.
void fill_frozen_fp32(const Graph& graph, const State& trained, const Program& calibration,
                      const Executor& executor, FrozenNetwork& frozen) {
  const auto& to = frozen.state.layout().parameters;
  for (int i = 0; i < static_cast<int>(calibration.instructions.size()); ++i) {
    const int node = calibration.instructions[i].node;
    if (node < 0) continue;
    const auto& parameters = frozen.graph.nodes[node].parameters;
    if (graph.nodes[node].op == &ops::kBatchNorm) {
      ops::fp32::freeze_batch_norm(executor.context(i),
                                   frozen.state.data<float>(to[parameters[0]].mantissa),
                                   frozen.state.data<float>(to[parameters[1]].mantissa));
      continue;
    }
    for (size_t k = 0; k < parameters.size(); ++k) {
      const int from = trained.layout().parameters[graph.nodes[node].parameters[k]].mantissa;
      copy_tensor(trained, from, frozen.state, to[parameters[k]].mantissa);
    }
  }
}

// Copies weights and biases, computes multipliers and offsets, stores exponents and guards.
void fill_frozen(const Graph& graph, const State& trained, const Program& calibration,
                 const Executor& executor, const Exponents& exponents, FrozenNetwork& frozen) {
  const StateLayout &from = trained.layout(), &to = frozen.state.layout();
  std::vector<std::byte> workspace;
  for (int i = 0; i < static_cast<int>(calibration.instructions.size()); ++i) {
    const Instruction& instruction = calibration.instructions[i];
    if (instruction.node < 0) continue;
    const auto& old_parameters = graph.nodes[instruction.node].parameters;
    const auto& new_parameters = frozen.graph.nodes[instruction.node].parameters;
    if (instruction.op == &ops::kBatchNorm) {
      const int multiplier = new_parameters[0], offset = new_parameters[1];
      const int64_t channels = frozen.graph.parameters[multiplier].shape.count();
      workspace.resize(static_cast<size_t>(ops::freeze_batch_norm_workspace_bytes(channels)) + 64);
      *frozen.state.data<int16_t>(to.parameters[multiplier].exponent) =
          static_cast<int16_t>(ops::freeze_batch_norm(
              executor.context(i), frozen.state.data<int32_t>(to.parameters[multiplier].mantissa),
              frozen.state.data<int64_t>(to.parameters[offset].mantissa), workspace.data()));
      continue;
    }
    for (size_t k = 0; k < old_parameters.size(); ++k) {
      const ParameterState &a = from.parameters[old_parameters[k]],
                           &b = to.parameters[new_parameters[k]];
      copy_tensor(trained, a.mantissa, frozen.state, b.mantissa);
      copy_tensor(trained, a.exponent, frozen.state, b.exponent);
    }
  }
  copy_tensor(trained, from.guards, frozen.state, to.guards);
  for (int value = 0; value < static_cast<int>(graph.values.size()); ++value) {
    frozen.state.data<int16_t>(to.exponents)[value] = exponents.value(value);
    const int tensor = to.channel_exponents[value];
    if (tensor < 0) continue;
    const auto& channels = exponents.channels(value);
    std::copy(channels.begin(), channels.end(), frozen.state.data<int8_t>(tensor));
  }
}

Result<Program> compile_inference(const Graph& graph, const InferenceOptions& options,
                                  int64_t batch, bool with_loss, const PlanningContext& planning) {
  return compile(graph,
                 {.kind = ProgramKind::kInference,
                  .micro_batch_size = batch,
                  .with_loss = with_loss,
                  .loss = options.loss,
                  .exponents = ExponentMode::kFixed,
                  .format = options.format},
                 planning);
}

}  // namespace

Graph freeze_graph(const Graph& graph) {
  Graph frozen = graph;
  frozen.parameters.clear();
  for (Node& node : frozen.nodes) {
    const std::vector<int> old = node.parameters;
    node.parameters.clear();
    if (node.op->frozen != nullptr) {
      node.op = node.op->frozen;
      node.attributes = {};
      if (node.op->parameters == nullptr) continue;
      for (const ParameterSpec& spec : node.op->parameters(
               node.attributes, std::span(&graph.values[node.inputs[0]].shape, 1))) {
        node.parameters.push_back(static_cast<int>(frozen.parameters.size()));
        frozen.parameters.push_back(
            {node.name + "." + spec.suffix, spec.shape, spec.role, spec.initialiser, 1});
      }
      continue;
    }
    for (const int parameter : old) {
      node.parameters.push_back(static_cast<int>(frozen.parameters.size()));
      frozen.parameters.push_back(graph.parameters[parameter]);
    }
  }
  return frozen;
}

Result<FrozenNetwork> freeze(const Graph& graph, State& state, const Program& calibration,
                             std::span<std::byte> arena, ThreadPool& pool, Isa isa,
                             std::span<const uint8_t> pixels, FrozenDescription description) {
  Executor executor(graph, calibration, state, arena, pool, isa);
  Graph frozen_graph = freeze_graph(graph);
  MANTISSA_ASSIGN(State frozen_state,
                  State::create(frozen_layout(frozen_graph, description.format)));
  FrozenNetwork frozen{std::move(description), std::move(frozen_graph), std::move(frozen_state)};
  if (frozen.description.format.is_float()) {
    fill_frozen_fp32(graph, state, calibration, executor, frozen);
    return frozen;
  }
  const int64_t batch_bytes =
      calibration.options.micro_batch_size * graph.values[graph.input].shape.count();
  for (int64_t at = 0; at + batch_bytes <= static_cast<int64_t>(pixels.size()); at += batch_bytes) {
    const auto result = executor.infer(pixels.data() + at, nullptr);
    if (!result.ok()) return result.error();
  }
  const Exponents exponents(graph, state, calibration, executor);
  for (int value = 0; value < static_cast<int>(graph.values.size()); ++value) {
    executor.set_exponents(value, exponents.value(value), exponents.channels(value));
  }
  fill_frozen(graph, state, calibration, executor, exponents, frozen);
  return frozen;
}

Status save_frozen(const std::filesystem::path& path, const FrozenNetwork& network) {
  const FrozenDescription& d = network.description;
  const nlohmann::json description = {{"model", d.model},
                                      {"format", to_string(d.format)},
                                      {"height", d.options.height},
                                      {"width", d.options.width},
                                      {"channels", d.options.channels},
                                      {"classes", d.options.classes},
                                      {"width_multiplier", d.options.width_multiplier},
                                      {"channel_means", d.options.channel_means},
                                      {"class_names", d.class_names},
                                      {"data", d.data},
                                      {"loss", ops::loss_of(d.loss).name},
                                      {"weights_sha256", d.weights_sha256}};
  return write_state(
      path,
      {{"kind", "mantissa frozen network 1"},
       {"description", description.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)}},
      network.state);
}

Result<FrozenNetwork> load_frozen(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(const SafetensorsFile file, read_safetensors(path));
  const auto kind = file.metadata.find("kind"), text = file.metadata.find("description");
  if (kind == file.metadata.end() || kind->second != "mantissa frozen network 1" ||
      text == file.metadata.end()) {
    return invalid_input(path.string() + ": is not a frozen network of Mantissa");
  }
  const auto damaged = [&] {
    return invalid_input(path.string() + ": its description is damaged");
  };
  FrozenDescription d;
  try {
    const auto json = nlohmann::json::parse(text->second);
    for (const char* key : {"height", "width", "channels", "classes"}) {
      if (!json.at(key).is_number_integer()) return damaged();
    }
    for (const auto& mean : json.at("channel_means")) {
      if (!mean.is_number_integer() || mean < 0 || mean > 255) return damaged();
    }
    json.at("model").get_to(d.model);
    // Files without the entry are of the time when nothing in them depended on it.
    const Result<Format> format = parse_format(json.value("format", "bfp8"));
    if (!format.ok()) return damaged();
    d.format = *format;
    json.at("height").get_to(d.options.height);
    json.at("width").get_to(d.options.width);
    json.at("channels").get_to(d.options.channels);
    json.at("classes").get_to(d.options.classes);
    json.at("width_multiplier").get_to(d.options.width_multiplier);
    json.at("channel_means").get_to(d.options.channel_means);
    json.at("class_names").get_to(d.class_names);
    json.at("data").get_to(d.data);
    json.at("weights_sha256").get_to(d.weights_sha256);
    // Files from before there was a choice lack it.
    const auto loss = ops::parse_loss(json.value("loss", ops::loss_of(d.loss).name));
    if (!loss.ok()) return damaged();
    d.loss = *loss;
  } catch (const nlohmann::json::exception&) {
    return damaged();
  }
  constexpr int64_t kLargestImage = 16384;
  if (d.options.height < 1 || d.options.height > kLargestImage || d.options.width < 1 ||
      d.options.width > kLargestImage || d.options.channels < 1 || d.options.channels > 4 ||
      static_cast<int64_t>(d.class_names.size()) != d.options.classes) {
    return invalid_input(path.string() + ": its description is not that of a network");
  }
  MANTISSA_ASSIGN(const Graph graph, build_network(d.model, d.options, d.format));
  Graph frozen_graph = freeze_graph(graph);
  StateLayout layout = frozen_layout(frozen_graph, d.format);
  int64_t held = 0;
  for (const auto& tensor : file.tensors) held += static_cast<int64_t>(tensor.data.size());
  if (layout.bytes > held + 64 * static_cast<int64_t>(layout.tensors.size())) {
    return invalid_input(path.string() + ": holds less than its network needs");
  }
  MANTISSA_ASSIGN(State state, State::create(std::move(layout)));
  MANTISSA_RETURN_IF_ERROR(read_state(path, file, state));
  return FrozenNetwork{std::move(d), std::move(frozen_graph), std::move(state)};
}

Result<EvaluationPrograms> compile_evaluation(const Graph& frozen_graph,
                                              const InferenceOptions& options, int64_t batch_size,
                                              int64_t examples, const PlanningContext& planning) {
  EvaluationPrograms programs;
  programs.batch_size = std::max<int64_t>(1, std::min(batch_size, examples));
  MANTISSA_ASSIGN(programs.full,
                  compile_inference(frozen_graph, options, programs.batch_size, true, planning));
  const int64_t rest = examples % programs.batch_size;
  if (rest != 0) {
    MANTISSA_ASSIGN(programs.rest, compile_inference(frozen_graph, options, rest, true, planning));
  }
  return programs;
}

Result<Evaluation> evaluate(FrozenNetwork& network, const EvaluationPrograms& programs,
                            std::span<std::byte> arena, ThreadPool& pool, Isa isa,
                            const ImageSet& images, const EvaluationObserver& observer) {
  Evaluation evaluation(network.graph.classes());
  const kernels::KernelTable table = kernels::select_kernels(isa);
  const auto run = [&](const Program& program, int64_t from, int64_t to) -> Status {
    if (from >= to) return {};
    Executor executor(network.graph, program, network.state, arena, pool, isa);
    const int64_t batch = program.options.micro_batch_size;
    for (int64_t first = from; first + batch <= to; first += batch) {
      const uint8_t* labels = images.labels.data() + first;
      const auto step =
          executor.infer(images.pixels.data() + first * images.example_bytes(), labels);
      if (!step.ok()) return step.error();
      evaluation.add(executor.logits(), labels, first, step->loss_q24, *table.softmax);
      if (observer != nullptr && !observer(evaluation.examples, images.count)) {
        return make_error(ErrorCode::kInterrupted, "interrupted while evaluating");
      }
    }
    return {};
  };
  const int64_t whole = images.count / programs.batch_size * programs.batch_size;
  MANTISSA_RETURN_IF_ERROR(run(programs.full, 0, whole));
  MANTISSA_RETURN_IF_ERROR(run(programs.rest, whole, images.count));
  evaluation.loss = ops::loss_value(programs.full.options.loss, evaluation.loss_q24) /
                    static_cast<double>(std::max<int64_t>(1, evaluation.examples));
  return evaluation;
}

Result<std::vector<double>> probabilities(FrozenNetwork& network, std::span<const uint8_t> pixels,
                                          int64_t count, ThreadPool& pool, Isa isa) {
  const kernels::KernelTable table = kernels::select_kernels(isa);
  MANTISSA_ASSIGN(const Program program,
                  compile_inference(network.graph, network.description.inference(), count, false,
                                    {&table, pool.size()}));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(program.arena_bytes));
  Executor executor(network.graph, program, network.state, arena.span(), pool, isa);
  const auto step = executor.infer(pixels.data(), nullptr);
  if (!step.ok()) return step.error();
  const Tensor logits = executor.logits();
  std::vector<double> result(static_cast<size_t>(logits.count()));
  if (logits.type == DataType::kFloat) {
    ops::fp32::probabilities(logits.as<float>(), count, logits.shape.last(), result.data());
    return result;
  }
  std::vector<int32_t> q30(static_cast<size_t>(logits.count()));
  table.softmax->probabilities(
      {logits.as<int32_t>(), nullptr, *logits.exponent, logits.shape.last()}, q30.data(), 0, count);
  std::transform(q30.begin(), q30.end(), result.begin(),
                 [](int32_t probability) { return probability * 0x1p-30; });
  return result;
}

}  // namespace mantissa
