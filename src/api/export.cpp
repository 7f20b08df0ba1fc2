// The export command: a frozen network to an ONNX file.
#include "api/outcome.h"
#include "api/settings.h"
#include "api/target.h"
#include "mantissa/runs.h"
#include "onnx/writer.h"
#include "train/deployed_network.h"

namespace mantissa {
namespace {

Result<onnx::ExportTarget> parse_target(const std::string& text) {
  if (text == "ort") return onnx::ExportTarget::kOnnxRuntime;
  if (text == "portable") return onnx::ExportTarget::kPortable;
  return invalid_input("--target: '" + text + "' is none; choose ort or portable");
}

Result<ExportOutcome> run_export(const Settings& settings) {
  MANTISSA_ASSIGN(const InferenceConfig config, inference_config("export", settings));
  MANTISSA_ASSIGN(const onnx::ExportTarget target, parse_target(config.target));
  if (config.out.empty()) return invalid_input("--out: name the ONNX file to write");
  MANTISSA_RETURN_IF_ERROR(check_target("out", config.out));
  MANTISSA_ASSIGN(const FrozenNetwork network, load_frozen(config.checkpoint));
  auto exported = export_frozen(network, target);
  if (!exported.ok()) {
    return make_error(exported.error().code, config.checkpoint + ": " + exported.error().message);
  }
  MANTISSA_RETURN_IF_ERROR(onnx::write_model(config.out, exported->model));
  ExportOutcome outcome;
  outcome.file = config.out;
  outcome.nodes = std::ssize(exported->model.graph.nodes);
  outcome.notes = std::move(exported->notes);
  if (target == onnx::ExportTarget::kPortable) {
    outcome.notes.push_back(
        "weights of 4 bits make the file smaller; ONNX Runtime computes such layers in float32, "
        "slower than with --target ort");
  }
  return outcome;
}

}  // namespace

ExportOutcome export_model(const Settings& settings) {
  Result<ExportOutcome> outcome = run_export(settings);
  return outcome.ok() ? std::move(*outcome) : refused<ExportOutcome>(outcome.error());
}

}  // namespace mantissa
