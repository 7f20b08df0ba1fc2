#include "run/settings/starting_point.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/file_system.h"
#include "base/hash.h"
#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "data/tokenizers/wordpiece.h"
#include "formats/arrays/safetensors_start.h"
#include "infer/deployed_network.h"
#include "infer/frozen_network.h"
#include "infer/tasks/language.h"
#include "models/json/network_json.h"
#include "networks/imported_network.h"
#include "networks/language/model_file.h"
#include "networks/network.h"
#include "plan/programs/optimizer.h"
#include "run/checkpoint.h"
#include "run/settings/config_file.h"
#include "run/settings/run_folder.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKind = "mantissa starting weights 1";
constexpr const char* kVocabularyEntry = "vocabulary";
constexpr const char* kTableEntry = "table";      // of LearnedData
constexpr const char* kClassesEntry = "classes";  // the same
constexpr const char* kPossible =
    "name the folder of a run, a checkpoint, best.safetensors, model.safetensors or an ONNX model";

std::string entry(const SafetensorsFile& file, const char* key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? std::string() : found->second;
}

bool is_frozen(const SafetensorsFile& file) {
  return entry(file, "kind").starts_with("mantissa frozen network");
}

Error refused(const fs::path& path, const std::string& what) {
  return invalid_input("from: " + path.string() + " " + what + "; " + kPossible);
}

// The weights that a run would keep: from its best epoch if it may stop early, else from its last.
Result<fs::path> file_of_run(const fs::path& folder) {
  MANTISSA_ASSIGN(const bool has_best, is_there(folder / kBestFile));
  if (has_best) return folder / kBestFile;
  MANTISSA_ASSIGN(const std::vector<int64_t> steps, list_checkpoints(folder));
  if (!steps.empty()) return checkpoint_path(folder, steps.back());
  MANTISSA_ASSIGN(const bool is_run, is_there(folder / kConfigFile));
  MANTISSA_ASSIGN(const bool is_foreign, is_model_folder(folder));
  if (is_foreign && !is_run) return not_imported(folder);
  return refused(folder, is_run ? "has no checkpoint" : "holds no run");
}

Result<fs::path> file_at(const fs::path& path) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(path));
  if (kind == PathKind::kFolder) return file_of_run(path);
  if (kind == PathKind::kNothing) return refused(path, "is not there");
  MANTISSA_ASSIGN(const bool is_foreign, is_model_file(path));
  if (is_foreign) return not_imported(path);
  return path;
}

// Whether a tensor belongs to another one, or to the state of training or inference.
bool is_companion(const std::string& name) {
  for (const char* whole : {"predictors", "bits", "guards", "exponents"}) {
    if (name == whole) return true;
  }
  for (const char* suffix : {".exponent", ".accumulator", ".channel_exponents"}) {
    if (name.ends_with(suffix)) return true;
  }
  for (const Optimizer& row : optimizers()) {
    for (const char* moment : row.moments) {
      if (moment != nullptr && name.ends_with(std::string(".") + moment)) return true;
    }
  }
  return false;
}

std::optional<DataType> type_named(const std::string& dtype) {
  for (const DataType type :
       {DataType::kUint8, DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64,
        DataType::kFloat, DataType::kDouble}) {
    if (dtype == data_type_name(type)) return type;
  }
  return std::nullopt;
}

// The tensor of int16 that belongs to a parameter; null if there is none with numbers.
const SafetensorsTensor* companion(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsTensor* tensor = file.find(name);
  if (tensor == nullptr || tensor->dtype != data_type_name(DataType::kInt16)) return nullptr;
  return std::ranges::find(tensor->shape, 0) == tensor->shape.end() ? tensor : nullptr;
}

bool is_of_mantissas(DataType type) { return type == DataType::kInt8 || type == DataType::kInt16; }

// A checkpoint records the shift of its accumulators. For checkpoints of earlier versions it comes
// from the run's format, if config.toml is beside them. 0: it is not known.
Result<int> lazy_shift_of(const fs::path& path, const SafetensorsFile& file) {
  if (const std::string text = entry(file, "lazy_shift"); !text.empty()) {
    MANTISSA_ASSIGN(const int64_t shift, parse_integer("lazy_shift", text, 0, 15));
    return static_cast<int>(shift);
  }
  const fs::path config = path.parent_path() / kConfigFile;
  MANTISSA_ASSIGN(const bool there, is_there(config));
  if (is_frozen(file) || !there) return 0;
  MANTISSA_ASSIGN(const ConfigFile settings, read_config(config));
  const auto format = settings.settings.find("format");
  if (format == settings.settings.end()) return Format{}.lazy_shift();
  MANTISSA_ASSIGN(const Format parsed, parse_format(format->second));
  return parsed.lazy_shift();
}

Result<NamedParameter> parameter_of(const SafetensorsTensor& tensor, const SafetensorsFile& file,
                                    int lazy_shift) {
  const std::string subject = "parameter '" + tensor.name + "' ";
  const auto type = type_named(tensor.dtype);
  const bool is_known = type && tensor.shape.size() <= size_t{Shape::kMostDims};
  NamedParameter parameter;
  if (is_known) parameter = parameter_in_file(tensor.name, *type, tensor.shape, tensor.data);
  const bool is_bytes = is_known && *type == DataType::kUint8;
  if (!is_known || (is_bytes && parameter.blocks == BlockKind::kNone)) {
    return invalid_input(subject + "has a type or shape that no parameter has");
  }
  if (!is_of_mantissas(*type)) return parameter;
  const SafetensorsTensor* const exponents = companion(file, tensor.name + ".exponent");
  if (exponents == nullptr) return invalid_input(subject + "has no exponent");
  parameter.exponents = exponents->data;
  if (lazy_shift == 0) return parameter;
  const SafetensorsTensor* const accumulator = companion(file, tensor.name + ".accumulator");
  if (accumulator == nullptr) return parameter;
  parameter.accumulator = accumulator->data;
  parameter.lazy_shift = lazy_shift;
  return parameter;
}

// The bytes of a parameter that was read from a file.
struct ParameterBytes {
  std::vector<std::byte> numbers, exponents, accumulator;
};

// A parameter with its numbers, which are read into `room` if they stay in the file.
Result<NamedParameter> loaded(const TrainedFile& trained, size_t i, ParameterBytes& room) {
  NamedParameter parameter = trained.parameters[i];
  const SafetensorsFile& file = trained.file;
  if (trained.imported || file.disk == nullptr) return parameter;
  MANTISSA_ASSIGN(parameter.numbers, file.bytes(*file.find(parameter.name), room.numbers));
  if (!is_of_mantissas(parameter.type)) return parameter;
  MANTISSA_ASSIGN(parameter.exponents,
                  file.bytes(*file.find(parameter.name + ".exponent"), room.exponents));
  if (parameter.lazy_shift == 0) return parameter;
  MANTISSA_ASSIGN(parameter.accumulator,
                  file.bytes(*file.find(parameter.name + ".accumulator"), room.accumulator));
  return parameter;
}

int64_t bytes_of(const NamedParameter& parameter) {
  return std::ssize(parameter.numbers) + std::ssize(parameter.exponents) +
         std::ssize(parameter.accumulator);
}

struct ReadParameters {
  std::string sha256;
  int64_t all_bytes = 0, largest_bytes = 0;
};

// Reads all parameters once.
Result<ReadParameters> read_parameters(const TrainedFile& trained) {
  Sha256 hash;
  ReadParameters found;
  ParameterBytes room;
  for (size_t i = 0; i < trained.parameters.size(); ++i) {
    MANTISSA_ASSIGN(const NamedParameter parameter, loaded(trained, i, room));
    found.all_bytes += bytes_of(parameter);
    found.largest_bytes = std::max(found.largest_bytes, bytes_of(parameter));
    hash.update(parameter.name + ":" + data_type_name(parameter.type) + ":" +
                to_string(parameter.shape) + ":" + std::to_string(parameter.exponents.size()) +
                ":" + std::to_string(parameter.accumulator.size()) + ":" +
                std::to_string(parameter.lazy_shift) + "\n");
    hash.update(parameter.numbers);
    hash.update(parameter.exponents);
    hash.update(parameter.accumulator);
  }
  found.sha256 = hash.hex_digest();
  return found;
}

Result<TrainedFile> read_onnx(const fs::path& path, const onnx::ImportOptions& options) {
  MANTISSA_ASSIGN(onnx::ImportedNetwork imported, import_file(path, options));
  TrainedFile trained;
  trained.path = path;
  trained.source = path.string();
  trained.imported = std::make_shared<const onnx::ImportedNetwork>(std::move(imported));
  trained.parameters = named_parameters(*trained.imported);
  return trained;
}

// Whether a path names an ONNX model that was not exported from here.
Result<bool> is_foreign_model(const fs::path& path) {
  if (!is_onnx_file(path)) return false;
  MANTISSA_ASSIGN(const bool is_ours, is_deployed(path));
  return !is_ours;
}

// The file, or for an exported network the file that it was exported from.
Result<SafetensorsFile> read_tensors(const fs::path& path, Reading reading) {
  if (!is_onnx_file(path)) {
    return reading == Reading::kWhole ? read_safetensors(path) : open_safetensors(path);
  }
  MANTISSA_ASSIGN(const FrozenNetwork network, load_deployed(path));
  MANTISSA_ASSIGN(const std::string bytes, frozen_bytes(network, true));
  return parse_safetensors(bytes, path);
}

// The names of tokens, or the tokenizer that has them.
std::string vocabulary_text(const Vocabulary& vocabulary) {
  const std::string tokenizer = vocabulary.tokenizer_entry();
  return tokenizer.empty() ? nlohmann::json(vocabulary.names()).dump() : tokenizer;
}

Result<Vocabulary> parse_vocabulary(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array()) {
    return vocabulary_of_entry(text);
  }
  std::vector<std::string> names;
  for (const nlohmann::json& name : json) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  if (names.size() == json.size() && names.size() >= 2 && std::ssize(names) <= kMostCharacters) {
    return Vocabulary(std::move(names));
  }
  return invalid_input("has a vocabulary that is none");
}

// The entry itself, or the one in a frozen network's table.
Result<std::string> tokenizer_of(const TrainedFile& trained) {
  if (!is_frozen(trained.file)) return std::string(entry(trained.file, kTokenizerEntry));
  MANTISSA_ASSIGN(const FrozenNetwork frozen, load_frozen(trained.path));
  const auto& table = frozen.description.table;
  return table && table->text ? to_json(*table->text->tokenizer) : std::string();
}

// The frozen network of a file, or the one that the run of a checkpoint wrote in the end; "": none.
Result<fs::path> frozen_beside(const TrainedFile& trained) {
  if (is_frozen(trained.file)) return trained.path;
  if (!entry(trained.file, "kind").starts_with("mantissa checkpoint")) return fs::path();
  const fs::path frozen = trained.path.parent_path() / kModelFile;
  MANTISSA_ASSIGN(const bool has_ended, is_there(frozen));
  return has_ended ? frozen : fs::path();
}

// A list of names, in a copy.
Result<std::vector<std::string>> names_in(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const bool are_names = json.is_array() && std::all_of(json.begin(), json.end(),
                                                        [](const auto& one) {
                                                          return one.is_string();
                                                        });
  if (!are_names) return invalid_input("has classes that are none");
  return json.get<std::vector<std::string>>();
}

// Columns and classes, of the copy itself or of the frozen network. A text has neither.
Result<LearnedData> learned_by(const TrainedFile& trained) {
  LearnedData learned{.source = trained.source};
  if (entry(trained.file, "kind") == kKind) {
    learned.is_exact = trained.file.metadata.contains(kQuantisedEntry);
    if (const std::string table = entry(trained.file, kTableEntry); !table.empty()) {
      MANTISSA_ASSIGN(learned.table, parse_table_schema(table));
    }
    if (const std::string classes = entry(trained.file, kClassesEntry); !classes.empty()) {
      MANTISSA_ASSIGN(learned.classes, names_in(classes));
    }
    return learned;
  }
  MANTISSA_ASSIGN(const fs::path frozen, frozen_beside(trained));
  if (frozen.empty()) return learned;
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(frozen));
  FrozenDescription& description = network.description;
  if (!description.table && reads_tokens(description.network)) return learned;
  learned.table = std::move(description.table);
  learned.classes = std::move(description.class_names);
  return learned;
}

}  // namespace

Result<TrainedFile> read_trained(const fs::path& path, const onnx::ImportOptions& options,
                                 Reading reading) {
  TrainedFile trained;
  MANTISSA_ASSIGN(trained.path, file_at(path));
  MANTISSA_ASSIGN(const bool imports, is_foreign_model(trained.path));
  if (imports) return read_onnx(trained.path, options);
  MANTISSA_ASSIGN(trained.file, read_tensors(trained.path, reading));
  const std::string kind = entry(trained.file, "kind");
  const bool is_copy = kind == kKind;
  const bool is_imported = kind == kImportedKind;
  if (!is_copy && !is_imported && !kind.starts_with("mantissa checkpoint") &&
      !is_frozen(trained.file)) {
    const fs::path folder = trained.path.parent_path();
    MANTISSA_ASSIGN(const bool is_foreign, is_model_folder(folder));
    if (is_foreign) return not_imported(folder);
    return refused(trained.path, "is no checkpoint and no trained network of Mantissa");
  }
  if (kind == "mantissa frozen network 3") {
    return invalid_input("from: " + trained.path.string() +
                         " is a frozen network without ties, whose weights are no longer those of "
                         "its training; name its run or a checkpoint");
  }
  trained.source = is_copy ? entry(trained.file, "source") : trained.path.string();
  MANTISSA_ASSIGN(trained.tokenizer, tokenizer_of(trained));
  auto learned = learned_by(trained);
  if (!learned.ok()) return refused(trained.path, learned.error().message);
  trained.learned = std::move(*learned);
  MANTISSA_ASSIGN(const int lazy_shift, lazy_shift_of(trained.path, trained.file));
  for (const SafetensorsTensor& tensor : trained.file.tensors) {
    if (is_companion(tensor.name)) continue;
    auto parameter = parameter_of(tensor, trained.file, lazy_shift);
    if (!parameter.ok()) {
      return invalid_input(trained.path.string() + ": " + parameter.error().message);
    }
    trained.parameters.push_back(std::move(*parameter));
  }
  return trained;
}

Result<StartingPoint> starting_point(const TrainedFile& trained) {
  MANTISSA_ASSIGN(ReadParameters found, read_parameters(trained));
  StartingPoint start{.path = trained.path,
                      .source = trained.source,
                      .sha256 = std::move(found.sha256),
                      .file_sha256 = trained.file.sha256,
                      .parameters = {},
                      .options = {},
                      .tokenizer = trained.tokenizer,
                      .learned = trained.learned};
  start.file_bytes = trained.imported ? found.all_bytes : 0;
  for (const SafetensorsTensor& tensor : trained.file.tensors) {
    start.file_bytes += *safetensors_bytes_of(tensor.dtype, tensor.shape);
  }
  const bool stays = !trained.imported && !is_onnx_file(trained.path);
  start.read_bytes = stays ? found.largest_bytes : start.file_bytes;
  MANTISSA_ASSIGN(const fs::path frozen, frozen_beside(trained));
  if (stays && !frozen.empty()) {
    // Read as a whole for its columns and tokens: the file, and the network that it becomes.
    std::error_code failed;
    const auto bytes = static_cast<int64_t>(fs::file_size(frozen, failed));
    if (!failed) start.read_bytes = std::max(start.read_bytes, 2 * bytes);
  }
  for (const NamedParameter& parameter : trained.parameters) {
    NamedParameter described = parameter;
    described.numbers = described.exponents = described.accumulator = {};
    described.lazy_shift = 0;
    start.parameters.push_back(std::move(described));
  }
  return start;
}

Result<TrainedNetwork> network_of(const TrainedFile& trained) {
  TrainedNetwork result;
  if (trained.imported) {
    result.network = trained.imported->graph;
    return result;
  }
  if (entry(trained.file, "kind") == kImportedKind) {
    MANTISSA_ASSIGN(result.network, parse_network(entry(trained.file, "network")));
    return result;
  }
  if (is_frozen(trained.file)) {
    MANTISSA_ASSIGN(FrozenNetwork frozen, load_frozen(trained.path));
    leave_out_means(frozen.description.network);
    result.network = std::move(frozen.description.network);
    return result;
  }
  const fs::path config = trained.path.parent_path() / kConfigFile;
  MANTISSA_ASSIGN(const bool there, is_there(config));
  if (!there) {
    return invalid_input("from: " + trained.path.string() +
                         " does not say what its network is, and has no config.toml beside it; "
                         "--model names the network");
  }
  MANTISSA_ASSIGN(const ConfigFile file, read_config(config));
  for (const auto& setting : file.settings) {
    const std::string& name = setting.first;
    const bool is_of_network =
        name == "model" || name.starts_with("lora") || has_trait(name, traits::kOfBuiltIn);
    if (is_of_network) result.settings.insert(setting);
  }
  return result;
}

Result<TakenParameters> match_start(const Graph& graph, const StartingPoint& start) {
  TakenParameters match = match_parameters(graph, start.parameters);
  if (!match.taken.empty()) return match;
  const auto first = [](const std::vector<std::string>& list) {
    return list.empty() ? std::string("nothing") : list[0];
  };
  return invalid_input("from: no parameter of " + start.source +
                       " has the name and shape of one of " + graph.name + " (" +
                       first(match.left_over) + " there, " + first(match.initial) +
                       " here); --model names another network");
}

Result<TrainedFile> reread(const StartingPoint& start, Reading reading) {
  MANTISSA_ASSIGN(TrainedFile trained, read_trained(start.path, start.options, reading));
  if (!start.file_sha256.empty() && trained.file.sha256 == start.file_sha256) return trained;
  MANTISSA_ASSIGN(const ReadParameters found, read_parameters(trained));
  if (found.sha256 == start.sha256) return trained;
  return invalid_input("from: " + start.path.string() +
                       " changed while the run began; begin again");
}

Result<TakenParameters> take_trained(const Graph& graph, const Format& format,
                                     const TrainedFile& trained, State& state) {
  ParameterBytes room;
  auto taken = take_named_parameters(
      graph, format, trained.parameters, [&](size_t i) { return loaded(trained, i, room); }, state);
  if (!taken.ok()) taken.error().message = trained.path.string() + ": " + taken.error().message;
  return taken;
}

Result<std::shared_ptr<const Vocabulary>> vocabulary_of(const TrainedFile& trained) {
  using Known = std::shared_ptr<const Vocabulary>;
  const std::string kind = entry(trained.file, "kind");
  if (kind == kKind) {
    const std::string text = entry(trained.file, kVocabularyEntry);
    if (text.empty()) return Known();
    auto vocabulary = parse_vocabulary(text);
    if (!vocabulary.ok()) return refused(trained.path, vocabulary.error().message);
    return std::make_shared<const Vocabulary>(std::move(*vocabulary));
  }
  if (kind == kImportedKind && is_byte_bpe(trained.tokenizer)) {
    MANTISSA_ASSIGN(Vocabulary vocabulary, vocabulary_of_entry(trained.tokenizer));
    return std::make_shared<const Vocabulary>(std::move(vocabulary));
  }
  MANTISSA_ASSIGN(const fs::path frozen, frozen_beside(trained));
  if (frozen.empty()) return Known();
  MANTISSA_ASSIGN(const FrozenNetwork network, load_frozen(frozen));
  if (!reads_tokens(network.description.network)) return Known();
  MANTISSA_ASSIGN(Vocabulary vocabulary, vocabulary_of(network.description));
  return std::make_shared<const Vocabulary>(std::move(vocabulary));
}

namespace {

std::map<std::string, std::string> metadata_of(const StartEntries& entries, int lazy_shift) {
  std::map<std::string, std::string> metadata = {
      {"kind", kKind}, {"source", entries.source}, {"lazy_shift", std::to_string(lazy_shift)}};
  if (!entries.tokenizer.empty()) metadata[kTokenizerEntry] = entries.tokenizer;
  if (entries.vocabulary) metadata[kVocabularyEntry] = vocabulary_text(*entries.vocabulary);
  if (!entries.quantised.empty()) metadata[kQuantisedEntry] = entries.quantised;
  const LearnedData& learned = entries.learned;
  if (learned.table) metadata[kTableEntry] = to_json(*learned.table);
  if (!learned.classes.empty()) {
    metadata[kClassesEntry] =
        nlohmann::json(learned.classes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return metadata;
}

}  // namespace

Status write_start(const fs::path& path, const StartEntries& entries,
                   std::span<const NamedParameter> parameters) {
  std::vector<SafetensorsView> views;
  int lazy_shift = 0;
  const auto add_int16 = [&](const std::string& name, std::span<const std::byte> bytes,
                             std::vector<int64_t> shape) {
    if (bytes.empty()) return;
    views.push_back({name, data_type_name(DataType::kInt16), std::move(shape), bytes});
  };
  for (const NamedParameter& parameter : parameters) {
    const std::vector<int64_t> dims = dims_in_file(parameter);
    views.push_back({parameter.name, data_type_name(parameter.type), dims, parameter.numbers});
    add_int16(parameter.name + ".exponent", parameter.exponents,
              {static_cast<int64_t>(parameter.exponents.size() / sizeof(int16_t))});
    add_int16(parameter.name + ".accumulator", parameter.accumulator, dims);
    lazy_shift = std::max(lazy_shift, parameter.lazy_shift);
  }
  return write_safetensors(path, metadata_of(entries, lazy_shift), views);
}

Status write_start(const fs::path& path, const StartEntries& entries, const TrainedFile& trained) {
  if (trained.imported) return write_start(path, entries, trained.parameters);
  const SafetensorsFile& file = trained.file;
  std::vector<SafetensorsView> views;
  std::vector<const SafetensorsTensor*> sources;
  int lazy_shift = 0;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    sources.push_back(file.find(name));
    views.push_back({name, sources.back()->dtype, std::move(shape), {}});
  };
  for (const NamedParameter& parameter : trained.parameters) {
    const std::vector<int64_t> dims = dims_in_file(parameter);
    add(parameter.name, dims);
    if (!is_of_mantissas(parameter.type)) continue;
    const std::string exponent = parameter.name + ".exponent";
    const auto bytes = *safetensors_bytes_of(file.find(exponent)->dtype, file.find(exponent)->shape);
    add(exponent, {bytes / int64_t{sizeof(int16_t)}});
    if (parameter.lazy_shift > 0) add(parameter.name + ".accumulator", dims);
    lazy_shift = std::max(lazy_shift, parameter.lazy_shift);
  }
  std::vector<std::byte> room;
  return write_safetensors(path, metadata_of(entries, lazy_shift), views,
                           [&](size_t i) { return file.bytes(*sources[i], room); });
}

}  // namespace mantissa
