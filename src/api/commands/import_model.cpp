// The command "import".
#include <algorithm>
#include <map>
#include <utility>

#include "api/commands/exported_run.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/settings/settings.h"
#include "api/target.h"
#include "base/system/thread_pool.h"
#include "data/datasets/dataset.h"
#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "data/tokenizers/vocabulary.h"
#include "mantissa/language.h"
#include "networks/bert_file.h"
#include "networks/folded_norms.h"
#include "networks/imported_network.h"
#include "networks/language/model_file.h"
#include "networks/network.h"
#include "run/settings/run_config.h"
#include "run/settings/run_network.h"
#include "start/insert_batch_norm.h"
#include "start/smooth_language_model.h"

namespace mantissa {
namespace {

struct ImportConfig {
  RunConfig run = default_run_config();  // settings that training has, too
  std::string out;
  std::string exported;  // run
  std::string smooth;    // text
  ImportedWeights weights = ImportedWeights::kFloats;
};

Status parse_weights(const std::string&, const std::string& text, ImportConfig& config) {
  if (text != "float32" && text != "blocks") {
    return invalid_input("weights: '" + text + "' is none; choose float32 or blocks");
  }
  config.weights = text == "blocks" ? ImportedWeights::kBlocks : ImportedWeights::kFloats;
  return {};
}

constexpr SettingOf<ImportConfig> kImportRows[] = {
    {"out", "safetensors file to write: network and weights", "", parse_text<&ImportConfig::out>},
    {"run",
     "with a state that an exported program saved: the run's folder; --out is then a new folder",
     "", parse_text<&ImportConfig::exported>},
    {"smooth",
     "of a language model: a text whose first tokens say which channels are large; powers of two "
     "move from these into the weights behind them, which changes no number that is computed in "
     "real numbers, and makes 8 bits closer to them (docs/language.md)",
     "", parse_text<&ImportConfig::smooth>},
    {"weights",
     "of a GGUF file: float32; or blocks: weights of Q4_0, Q4_1 and Q8_0 stay in 4 and 8 bits, and "
     "are not trained",
     "float32", parse_weights},
    {"classes", "outputs of the network (0: those of the model)", "0"},
    {"data", "with --insert-batch-norm: data set whose training examples set them"},
    {"sequence",
     "positions of an example, of sequences (left out: the model's; of an encoder or a language "
     "model 128, or its own)"},
    {kOfTraining},
    {"threads", kThreadsHelp, "0"}};
constexpr CommandOf<ImportConfig> kImportCommand = {"import", kImportRows, traits::kInImport};

Result<ImportConfig> import_config(const Settings& settings) {
  Settings training;
  MANTISSA_ASSIGN(ImportConfig config, read_settings(kImportCommand, settings, &training));
  config.run.data.clear();
  MANTISSA_RETURN_IF_ERROR(take_settings<RunConfig>(training_settings(), training, config.run));
  RunConfig& run = config.run;
  run.import_options.height = run.input_size.height;
  run.import_options.width = run.input_size.width;
  run.import_options.sequence = run.sequence;
  take_import_loss(settings, run);
  if (config.out.empty()) return invalid_input("--out: name the safetensors file to write");
  if (run.classes == 0 && !run.classifier.empty()) {
    return invalid_input("classifier: goes with --classes");
  }
  if (run.inserts_batch_norm == run.data.empty()) {
    return invalid_input("--insert-batch-norm and --data go together");
  }
  if (run.threads == 0) run.threads = processors();
  return config;
}

// Sets batch norms from the examples of a data set whose classes may be others.
Status insert_norms(RunConfig run, onnx::ImportedNetwork& imported) {
  run.network = imported.graph;  // says how arrays are read
  DataOptions options = data_options(run);
  options.classes = 0;
  MANTISSA_ASSIGN(const Dataset data, load_dataset(run.data, true, false, options));
  MANTISSA_RETURN_IF_ERROR(check_examples(imported.graph, data.info));
  MANTISSA_ASSIGN(const std::vector<std::string> layers,
                  insert_batch_norms(data.train, {run.seed, run.threads, run.isa}, imported));
  imported.notes.push_back(describe_inserted_norms(layers));
  return {};
}

ImportedModel described(onnx::ImportedNetwork imported) {
  ImportedModel model;
  model.network = imported.graph.name;
  model.layers = std::ssize(imported.graph.nodes);
  model.parameters = imported.graph.trained_parameters();
  model.notes = std::move(imported.notes);
  return model;
}

// Settings that encoders and language models do not have.
Status check_no_others(const std::string& path, const Settings& settings, const char* what,
                       bool takes_weights = false) {
  for (const auto& [name, text] : settings) {
    if (name == "out" || name == "sequence" || name == "threads" || name == "smooth") continue;
    if (name == "weights" && takes_weights) continue;
    return invalid_input(name + ": is for ONNX models, and " + path + " is " + what);
  }
  return {};
}

// An encoder has no classes and reads no pictures.
Outcome<ImportedModel> import_encoder(const std::string& path, const ImportConfig& config,
                                      const Settings& settings) {
  MANTISSA_RETURN_IF_ERROR(check_no_others(path, settings, "an encoder"));
  MANTISSA_ASSIGN(ImportedEncoder encoder, import_bert(path, config.run.sequence));
  MANTISSA_RETURN_IF_ERROR(
      write_imported(config.out, encoder.network, path,
                     {{kTokenizerEntry, to_json(encoder.tokenizer)}}));
  return described(std::move(encoder.network));
}

// Its vocabulary is its own, and it reads no pictures.
Outcome<ImportedModel> import_decoder(const std::string& path, const ImportConfig& config,
                                      const Settings& settings) {
  MANTISSA_RETURN_IF_ERROR(check_no_others(path, settings, "a language model", true));
  if (!config.smooth.empty() && config.weights == ImportedWeights::kBlocks) {
    return invalid_input("smooth: moves numbers in and out of weights, and blocks keep the file's; "
                         "choose --weights float32");
  }
  MANTISSA_ASSIGN(const LanguageModelFile file, read_language_model(path));
  if (!config.smooth.empty() && file.sizes.layout != DecoderLayout::kLlama) {
    return invalid_input("smooth: is for networks in Llama's layout, and " + path + " is of " +
                         file.architecture + ": leave it out");
  }
  MANTISSA_ASSIGN(onnx::ImportedNetwork network,
                  import_language_model(file, config.run.sequence, config.weights));
  MANTISSA_ASSIGN(const std::string tokenizer, tokenizer_entry(file));
  std::map<std::string, std::string> entries = {{kTokenizerEntry, tokenizer}};
  if (!config.smooth.empty()) {
    MANTISSA_ASSIGN(const Vocabulary vocabulary, vocabulary_of_entry(tokenizer));
    MANTISSA_ASSIGN(entries[kSmoothedEntry],
                    smooth_language_model(file.sizes, config.smooth, vocabulary,
                                          {config.run.seed, config.run.threads, config.run.isa},
                                          network));
  }
  MANTISSA_RETURN_IF_ERROR(write_imported(config.out, network, path, entries));
  ImportedModel model = described(std::move(network));
  model.description = describe(file);
  return model;
}

// An error if the options ask for a number of positions that the model does not have.
Status check_sequence(const Graph& graph, int64_t wanted) {
  const Value& input = graph.values[graph.inputs[0]];
  if (wanted == 0) return {};
  if (input.type == DataType::kUint8) {
    return invalid_input("sequence: is for networks of sequences; this one reads pictures");
  }
  if (input.shape[0] == wanted) return {};
  return invalid_input("sequence " + std::to_string(wanted) + ": the model has " +
                       std::to_string(input.shape[0]) + " positions: leave it out");
}

}  // namespace

Outcome<LanguageModelDescription> describe_language_model(const std::string& path) {
  MANTISSA_ASSIGN(const bool is_decoder, is_model_file(path));
  if (!is_decoder) return LanguageModelDescription();
  MANTISSA_ASSIGN(const LanguageModelFile file, read_language_model(path));
  return LanguageModelDescription{describe(file)};
}

CommandInfo import_command() { return info_of<kImportCommand>(); }

Outcome<ImportedModel> import_model(const std::string& path, const Settings& settings) {
  MANTISSA_ASSIGN(const ImportConfig config, import_config(settings));
  const RunConfig& run = config.run;
  if (is_saved_state(path)) return import_state(path, config.exported, config.out);
  if (!config.exported.empty()) {
    return invalid_input("--run: is for states of exported programs; " + path + " is none");
  }
  MANTISSA_RETURN_IF_ERROR(check_target("out", config.out));
  MANTISSA_ASSIGN(const bool is_decoder, is_model_file(path));
  if (is_decoder) return import_decoder(path, config, settings);
  if (!config.smooth.empty()) {
    return invalid_input("smooth: is for language models, and " + path + " is none");
  }
  if (is_bert_path(path)) return import_encoder(path, config, settings);
  if (settings.contains("weights")) {
    return invalid_input("weights: is for language models in GGUF files, and " + path + " is none");
  }
  MANTISSA_ASSIGN(onnx::ImportedNetwork imported, import_file(path, run.import_options));
  MANTISSA_RETURN_IF_ERROR(check_sequence(imported.graph, run.sequence));
  if (run.inserts_batch_norm) {
    MANTISSA_RETURN_IF_ERROR(insert_norms(run, imported));
  } else if (const std::string hint = folded_norms_text(imported.graph); !hint.empty()) {
    imported.notes.push_back(hint);
  }
  if (run.classes > 0 &&
      (has_several_outputs(imported.graph) || run.classes != imported.graph.classes())) {
    MANTISSA_RETURN_IF_ERROR(
        set_classes(run.classes, run.classifier, run.import_options.output, imported));
  }
  MANTISSA_RETURN_IF_ERROR(write_imported(config.out, imported, path));
  return described(std::move(imported));
}

}  // namespace mantissa
