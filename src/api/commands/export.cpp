// The export command: a frozen network to an ONNX file.
#include "api/inference/inference_config.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/target.h"
#include "infer/deployed_network.h"
#include "infer/exported_sequence.h"
#include "mantissa/runs.h"
#include "onnx/files/writer.h"
#include "start/load_encoder.h"

namespace mantissa {
namespace {

struct ExportConfig {
  std::string checkpoint;
  std::string from;  // an encoder, in place of a checkpoint
  Format format;     // of the encoder
  onnx::ExportTarget target = onnx::ExportTarget::kOnnxRuntime;
  std::string out;
};

Status parse_target(const std::string&, const std::string& text, ExportConfig& config) {
  if (text != "ort" && text != "portable") {
    return invalid_input("--target: '" + text + "' is none; choose ort or portable");
  }
  config.target = text == "ort" ? onnx::ExportTarget::kOnnxRuntime : onnx::ExportTarget::kPortable;
  return {};
}

constexpr SettingOf<ExportConfig> kExportRows[] = {
    kCheckpoint<ExportConfig>,
    {"from", "encoder in place of a run: a file of import, or a folder in BERT's layout", "",
     parse_text<&ExportConfig::from>},
    // 8 bits, an exponent for each row of values and of weights.
    {"format", "with --from: number format; fp32 writes a network of real numbers",
     "bfp:block=channel,blocks=token", parse_by<parse_format, &ExportConfig::format>},
    {"target", "ort: for ONNX Runtime's integer kernels; portable: 4-bit weights where they fit",
     "ort", parse_target},
    {"out", "the ONNX file to write", "", parse_text<&ExportConfig::out>}};
constexpr CommandOf<ExportConfig> kExportCommand = {"export", kExportRows};

Result<ExportConfig> export_config(Settings settings) {
  const auto encoder = settings.find("from");
  const bool is_run = encoder == settings.end() || encoder->second.empty();
  if (is_run && settings.contains("format")) {
    return invalid_input("--format: a run has its own; it is for encoders, which --from names");
  }
  MANTISSA_ASSIGN(ExportConfig config, read_settings(kExportCommand, settings));
  if (is_run) {
    MANTISSA_RETURN_IF_ERROR(find_checkpoint(config.checkpoint));
  } else if (!config.checkpoint.empty()) {
    return invalid_input("give either --checkpoint, or --from for an encoder");
  }
  return config;
}

// Errors of the export name the file.
Result<onnx::ExportedModel> of_file(const std::string& path, Result<onnx::ExportedModel> exported) {
  if (exported.ok()) return exported;
  return make_error(exported.error().code, path + ": " + exported.error().message);
}

// The network of a run, or an encoder, as a model.
Result<onnx::ExportedModel> exported_model(const ExportConfig& config) {
  if (config.from.empty()) {
    MANTISSA_ASSIGN(const FrozenNetwork network, load_frozen(config.checkpoint));
    return of_file(config.checkpoint, export_frozen(network, config.target));
  }
  MANTISSA_ASSIGN(const Encoder encoder, load_encoder(config.from, config.format));
  return of_file(config.from, export_encoder(encoder, config.target));
}

}  // namespace

CommandInfo export_command() { return info_of<kExportCommand>(); }

Outcome<ExportedModel> export_model(const Settings& settings) {
  MANTISSA_ASSIGN(const ExportConfig config, export_config(settings));
  if (config.out.empty()) return invalid_input("--out: name the ONNX file to write");
  MANTISSA_RETURN_IF_ERROR(check_target("out", config.out));
  MANTISSA_ASSIGN(onnx::ExportedModel exported, exported_model(config));
  MANTISSA_RETURN_IF_ERROR(onnx::write_model(config.out, exported.model));
  ExportedModel written;
  written.file = config.out;
  written.nodes = std::ssize(exported.model.graph.nodes);
  written.notes = std::move(exported.notes);
  if (config.target == onnx::ExportTarget::kPortable) {
    written.notes.push_back(
        "weights of 4 bits make the file smaller; ONNX Runtime computes such layers in float32, "
        "slower than with --target ort, and rounds some of their sums: logits may differ a little "
        "from those of predict --raw");
  }
  return written;
}

}  // namespace mantissa
