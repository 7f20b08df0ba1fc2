// The export command: a frozen network to an ONNX file.
#include "api/outcome.h"
#include "api/settings/settings.h"
#include "api/target.h"
#include "infer/deployed_network.h"
#include "infer/exported_sequence.h"
#include "mantissa/runs.h"
#include "onnx/files/writer.h"
#include "start/load_encoder.h"

namespace mantissa {
namespace {

Result<onnx::ExportTarget> parse_target(const std::string& text) {
  if (text == "ort") return onnx::ExportTarget::kOnnxRuntime;
  if (text == "portable") return onnx::ExportTarget::kPortable;
  return invalid_input("--target: '" + text + "' is none; choose ort or portable");
}

// Errors of the export name the file.
Result<onnx::ExportedModel> of_file(const std::string& path, Result<onnx::ExportedModel> exported) {
  if (exported.ok()) return exported;
  return make_error(exported.error().code, path + ": " + exported.error().message);
}

// The network of a run, or an encoder, as a model.
Result<onnx::ExportedModel> exported_model(const InferenceConfig& config,
                                           onnx::ExportTarget target) {
  if (config.from.empty()) {
    MANTISSA_ASSIGN(const FrozenNetwork network, load_frozen(config.checkpoint));
    return of_file(config.checkpoint, export_frozen(network, target));
  }
  MANTISSA_ASSIGN(const Format format, parse_format(config.format));
  MANTISSA_ASSIGN(const Encoder encoder, load_encoder(config.from, format));
  return of_file(config.from, export_encoder(encoder, target));
}

Result<ExportOutcome> run_export(const Settings& settings) {
  MANTISSA_ASSIGN(const InferenceConfig config, inference_config("export", settings));
  MANTISSA_ASSIGN(const onnx::ExportTarget target, parse_target(config.target));
  if (config.out.empty()) return invalid_input("--out: name the ONNX file to write");
  MANTISSA_RETURN_IF_ERROR(check_target("out", config.out));
  MANTISSA_ASSIGN(onnx::ExportedModel exported, exported_model(config, target));
  MANTISSA_RETURN_IF_ERROR(onnx::write_model(config.out, exported.model));
  ExportOutcome outcome;
  outcome.file = config.out;
  outcome.nodes = std::ssize(exported.model.graph.nodes);
  outcome.notes = std::move(exported.notes);
  if (target == onnx::ExportTarget::kPortable) {
    outcome.notes.push_back(
        "weights of 4 bits make the file smaller; ONNX Runtime computes such layers in float32, "
        "slower than with --target ort, and rounds some of their sums: logits may differ a little "
        "from those of predict --raw");
  }
  return outcome;
}

}  // namespace

ExportOutcome export_model(const Settings& settings) {
  Result<ExportOutcome> outcome = run_export(settings);
  return outcome.ok() ? std::move(*outcome) : refused<ExportOutcome>(outcome.error());
}

}  // namespace mantissa
