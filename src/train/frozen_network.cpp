#include "train/frozen_network.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/json_text.h"
#include "formats/safetensors.h"
#include "ops/loss.h"
#include "train/freeze.h"
#include "train/network.h"
#include "train/state_file.h"

namespace mantissa {
Result<Program> compile_inference(const Graph& frozen_graph, const Format& format, int64_t batch,
                                  bool with_loss, const PlanningContext& planning) {
  return compile(frozen_graph,
                 {.kind = ProgramKind::kInference,
                  .micro_batch_size = batch,
                  .with_loss = with_loss,
                  .exponents = ExponentMode::kFixed,
                  .format = format},
                 planning);
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
                                      {"loss", ops::loss_of(d.options.loss).name},
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
    const auto json = parse_json(text->second);
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
    const auto loss = ops::parse_loss(json.value("loss", ops::loss_of(d.options.loss).name));
    if (!loss.ok()) return damaged();
    d.options.loss = *loss;
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

Result<EvaluationPrograms> compile_evaluation(const Graph& frozen_graph, const Format& format,
                                              int64_t batch_size, int64_t examples,
                                              const PlanningContext& planning) {
  EvaluationPrograms programs;
  programs.batch_size = std::max<int64_t>(1, std::min(batch_size, examples));
  MANTISSA_ASSIGN(programs.full,
                  compile_inference(frozen_graph, format, programs.batch_size, true, planning));
  const int64_t rest = examples % programs.batch_size;
  if (rest != 0) {
    MANTISSA_ASSIGN(programs.rest, compile_inference(frozen_graph, format, rest, true, planning));
  }
  return programs;
}

Programs inference_programs(FrozenNetwork& network, const EvaluationPrograms& programs,
                            const Machine& machine) {
  Programs result(network.graph, network.state, machine);
  for (const Program* program : {&programs.full, &programs.rest}) {
    if (!program->instructions.empty()) result.add(*program);
  }
  return result;
}

}  // namespace mantissa
