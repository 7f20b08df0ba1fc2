// The export command: a frozen network to an ONNX file, to one of TensorFlow Lite, to C, or of a
// language model to files of other programs.
#include <algorithm>
#include <cctype>

#include "api/commands/export_c.h"
#include "api/commands/export_language.h"
#include "api/commands/exported_run.h"
#include "api/inference/inference_config.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "base/sizes.h"
#include "infer/deployed_network.h"
#include "infer/exported_sequence.h"
#include "infer/tflite_file.h"
#include "mantissa/runs.h"
#include "onnx/files/writer.h"
#include "start/load_encoder.h"

namespace mantissa {
namespace {

enum class ExportKind { kOnnxRuntime, kPortable, kTflite, kC, kGguf, kHuggingFace, kPeft };

struct ExportConfig {
  std::string checkpoint;
  std::string from;  // an encoder, in place of a checkpoint
  Format format;     // of the encoder
  ExportKind target = ExportKind::kOnnxRuntime;
  std::string prefix = "mantissa";  // of C names
  bool trains = false;
  bool from_initial = false;
  int64_t memory_budget = 0;
  LanguageExport language;
  std::string out;
};

Status parse_target(const std::string&, const std::string& text, ExportConfig& config) {
  constexpr std::pair<std::string_view, ExportKind> kTargets[] = {
      {"ort", ExportKind::kOnnxRuntime},
      {"portable", ExportKind::kPortable},
      {"tflite", ExportKind::kTflite},
      {"c", ExportKind::kC},
      {"gguf", ExportKind::kGguf},
      {"huggingface", ExportKind::kHuggingFace},
      {"peft", ExportKind::kPeft}};
  const auto* found = std::ranges::find(kTargets, text, [](const auto& row) { return row.first; });
  if (found == std::end(kTargets)) {
    return invalid_input("--target: '" + text +
                         "' is none; choose ort, portable, tflite, c, gguf, huggingface or peft");
  }
  config.target = found->second;
  return {};
}

Status parse_prefix(const std::string&, const std::string& text, ExportConfig& config) {
  const auto is_part = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c));
  };
  if (text.empty() || !std::ranges::all_of(text, is_part) ||
      std::isalpha(static_cast<unsigned char>(text[0])) == 0) {
    return invalid_input("--prefix: '" + text +
                         "' is no C name: letters, digits and '_', a letter first");
  }
  config.prefix = text;
  return {};
}

constexpr int64_t kMostPositions = int64_t{1} << 24;

constexpr SettingOf<ExportConfig> kExportRows[] = {
    kCheckpoint<ExportConfig>,
    {"from",
     "encoder or language model in place of a run: a file of import, or an encoder's folder in "
     "BERT's layout",
     "",
     parse_text<&ExportConfig::from>},
    // 8 bits, an exponent for each row of values and of weights.
    {"format", "with --from: number format; fp32 writes a network of real numbers",
     "bfp:block=channel,blocks=token", parse_by<parse_format, &ExportConfig::format>},
    {"target",
     "ort: for ONNX Runtime's integer kernels; portable: 4-bit weights where they fit; tflite: a "
     "TensorFlow Lite file, of networks with ties=up; c: C99 for machines without an operating "
     "system; of language models gguf: for llama.cpp, huggingface: for transformers, peft: "
     "adapters alone",
     "ort", parse_target},
    {"prefix", "of --target c: names of functions and files begin with it", "mantissa",
     parse_prefix},
    {"train", "of --target c: training too, of a run's folder, from its newest checkpoint", "false",
     parse_switch<&ExportConfig::trains>, traits::kSwitch},
    {"initial", "with --train: from the run's initial weights, before its first step", "false",
     parse_switch<&ExportConfig::from_initial>, traits::kSwitch},
    {"memory-budget",
     "with --train: most bytes of state and arena; values are computed again to meet it (256KiB)",
     "", parse_by<parse_bytes, &ExportConfig::memory_budget>},
    {"weights",
     "of gguf and huggingface: f32, f16, bf16 or, of gguf, q8_0 or blocks, which keeps weights in "
     "blocks as they are (left out: of gguf blocks if there are some, or q8_0 for a network of 8 "
     "bits; else f32)",
     "", parse_text<&ExportConfig::language, &LanguageExport::weights>},
    {"positions",
     "of gguf and huggingface: tokens of the longest text, as the file says it (0: those of the "
     "network)",
     "0", parse_whole<0, kMostPositions, &ExportConfig::language, &LanguageExport::positions>},
    {"base", "of peft: the model that the adapters belong to, as PEFT loads it", "",
     parse_text<&ExportConfig::language, &LanguageExport::base>},
    {"out", "the file to write; of --target c, huggingface and peft the folder", "",
     parse_text<&ExportConfig::out>}};
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

bool is_of_language(const ExportConfig& config) {
  return config.target == ExportKind::kGguf || config.target == ExportKind::kHuggingFace ||
         config.target == ExportKind::kPeft;
}

Outcome<ExportedModel> export_language(ExportConfig config, const Settings& settings) {
  if (settings.contains("format")) {
    return invalid_input("--format: is for encoders; --weights says the type of the numbers");
  }
  LanguageExport& request = config.language;
  request.target = config.target == ExportKind::kGguf          ? LanguageTarget::kGguf
                   : config.target == ExportKind::kHuggingFace ? LanguageTarget::kHuggingFace
                                                               : LanguageTarget::kPeft;
  request.path = config.from.empty() ? config.checkpoint : config.from;
  request.out = config.out;
  return export_language_model(request);
}

onnx::ExportTarget onnx_target(const ExportConfig& config) {
  return config.target == ExportKind::kPortable ? onnx::ExportTarget::kPortable
                                                : onnx::ExportTarget::kOnnxRuntime;
}

// Errors of the export name the file.
template <typename Model>
Result<Model> of_file(const std::string& path, Result<Model> exported) {
  if (exported.ok()) return exported;
  return make_error(exported.error().code, path + ": " + exported.error().message);
}

// The network of a run, or an encoder, as a model.
Result<onnx::ExportedModel> exported_model(const ExportConfig& config) {
  if (config.from.empty()) {
    MANTISSA_ASSIGN(const FrozenNetwork network, load_frozen(config.checkpoint));
    return of_file(config.checkpoint, export_frozen(network, onnx_target(config)));
  }
  MANTISSA_ASSIGN(const Encoder encoder, load_encoder(config.from, config.format));
  return of_file(config.from, export_encoder(encoder, onnx_target(config)));
}

Outcome<ExportedModel> export_to_tflite(const ExportConfig& config) {
  if (!config.from.empty()) {
    return invalid_input("--target tflite: encoders are exported as ONNX files");
  }
  MANTISSA_ASSIGN(const FrozenNetwork network, load_frozen(config.checkpoint));
  MANTISSA_RETURN_IF_ERROR(check_has_one_answer(config.checkpoint, network.description.options));
  MANTISSA_ASSIGN(const tflite::ModelData model,
                  of_file(config.checkpoint, export_tflite(network)));
  MANTISSA_ASSIGN(const std::string bytes, of_file(config.checkpoint, tflite::model_bytes(model)));
  MANTISSA_RETURN_IF_ERROR(write_text_atomically(config.out, bytes));
  ExportedModel written;
  written.file = config.out;
  written.nodes = std::ssize(model.operations);
  return written;
}

}  // namespace

CommandInfo export_command() { return info_of<kExportCommand>(); }

Outcome<ExportedModel> export_model(const Settings& settings) {
  MANTISSA_ASSIGN(const ExportConfig config, export_config(settings));
  if (config.target == ExportKind::kC) {
    if (!config.from.empty()) return invalid_input("--target c: wants a --checkpoint, not --from");
    if (config.out.empty()) return invalid_input("--out: name the folder to write");
    const CExport request = {config.checkpoint, config.prefix, config.out, config.from_initial,
                             config.memory_budget};
    return config.trains ? export_training_to_c(request) : export_to_c(request);
  }
  if (is_of_language(config)) return export_language(config, settings);
  for (const char* name : {"weights", "positions", "base"}) {
    if (!settings.contains(name)) continue;
    return invalid_input(std::string("--") + name + ": is for --target gguf, huggingface and peft");
  }
  if (config.out.empty()) return invalid_input("--out: name the file to write");
  MANTISSA_RETURN_IF_ERROR(check_target("out", config.out));
  if (config.target == ExportKind::kTflite) return export_to_tflite(config);
  MANTISSA_ASSIGN(onnx::ExportedModel exported, exported_model(config));
  MANTISSA_RETURN_IF_ERROR(onnx::write_model(config.out, exported.model));
  ExportedModel written;
  written.file = config.out;
  written.nodes = std::ssize(exported.model.graph.nodes);
  written.notes = std::move(exported.notes);
  if (config.target == ExportKind::kPortable) {
    written.notes.push_back(
        "weights of 4 bits make the file smaller; ONNX Runtime computes such layers in float32, "
        "slower than with --target ort, and rounds some of their sums: logits may differ a little "
        "from those of predict --raw");
  }
  return written;
}

}  // namespace mantissa
