#include "infer/tflite_file.h"

#include <nlohmann/json.hpp>

#include "infer/exported_network.h"
#include "plan/passes/resolved_values.h"
#include "tflite/exporter.h"

namespace mantissa {
namespace {

std::string metadata_of(const FrozenNetwork& network) {
  const FrozenDescription& d = network.description;
  const nlohmann::json json = {
      {"network", d.network.name},
      {"format", to_string(d.format)},
      {"data", d.data},
      {"class_names", d.class_names},
      {"model_sha256", network.state.sha256(StateGroup::kPredictor)},
      {"weights_sha256", d.weights_sha256},
      {"input", "pixels of 8 bits as they are, 0 to 255; the network subtracts its means"},
      {"output", "logits: mantissas of predict --raw"}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Result<tflite::ModelData> export_tflite(const FrozenNetwork& network) {
  const FrozenDescription& d = network.description;
  if (d.form != FrozenForm::kTieFree) {
    return invalid_input(
        "--target tflite writes networks whose format has ties=up, such as "
        "bfp8-portable, and this one computes in " +
        to_string(d.format));
  }
  const onnx::ExportedNetwork view = exported_view(network.graph, network.state, d.format);
  tflite::ExportedNetwork exported{.graph = view.graph,
                                   .parameters = {},
                                   .canonical = resolve_values(network.graph).canonical,
                                   .exponents = view.exponents,
                                   .limits = view.limits,
                                   .applies_relu = view.applies_relu};
  for (const auto& parameter : view.parameters) exported.parameters.push_back(parameter.numbers);
  MANTISSA_ASSIGN(tflite::ModelData model, tflite::export_network(exported));
  model.metadata = {{"mantissa", metadata_of(network)}};
  return model;
}

}  // namespace mantissa
