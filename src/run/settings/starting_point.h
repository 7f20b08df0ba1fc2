// Trained weights that a run starts from: `train --from` (docs/networks.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tables/learned_data.h"
#include "data/tokenizers/vocabulary.h"
#include "formats/arrays/safetensors.h"
#include "graph/graph.h"
#include "numerics/format.h"
#include "onnx/import/import.h"
#include "runtime/named_parameters.h"
#include "runtime/state.h"

namespace mantissa {

// The copy of the run's starting point in its folder.
inline constexpr const char* kStartFile = "start.safetensors";

// A file with trained parameters. Its numbers are in memory, or stay in the file.
struct TrainedFile {
  std::filesystem::path path;
  std::string source;  // the path that people named first: a copy knows it
  SafetensorsFile file;
  // Views of `file`, or of `imported`; without numbers if these stay in the file.
  std::vector<NamedParameter> parameters;
  std::shared_ptr<const onnx::ImportedNetwork> imported = nullptr;  // of an ONNX model
  std::string tokenizer = {};  // of a network of texts: to_json(WordPiece)
  LearnedData learned = {};    // columns and classes; unknown before a run has ended
};

// Whether all numbers are read into memory, or one parameter after the other when it is needed. ONNX
// models and exported networks are always read whole.
enum class Reading : uint8_t { kWhole, kByParameter };

// Reads a run's folder (its best.safetensors if there is one, else its newest checkpoint), a
// checkpoint, a frozen or imported network, an ONNX model, which it imports with these options, or
// the copy of a run. Errors are one line that says what is possible. For a model that cannot be
// imported they list the reasons.
Result<TrainedFile> read_trained(const std::filesystem::path& path,
                                 const onnx::ImportOptions& options = {},
                                 Reading reading = Reading::kWhole);

// Such a file in a run's settings. The numbers are read again when they are used.
struct StartingPoint {
  std::filesystem::path path;  // of the file, not of the folder
  std::string source;
  std::string sha256;  // of the parameters: names, types, shapes, bytes
  std::string file_sha256;  // of the whole file, if it has a checksum
  int64_t file_bytes = 0;
  int64_t read_bytes = 0;  // in memory at once, when the numbers are read by Reading::kByParameter
  std::vector<NamedParameter> parameters;  // names, types and shapes; no numbers
  onnx::ImportOptions options;             // of an ONNX model
  std::string tokenizer = {};
  LearnedData learned = {};
};
Result<StartingPoint> starting_point(const TrainedFile& trained);

// The network that `--from` gives a run without `--model`.
struct TrainedNetwork {
  // From a checkpoint: the model and how it is built, of the config.toml beside it.
  std::map<std::string, std::string> settings;
  // From a frozen network: its own, without channel means; from an imported one: its own.
  std::optional<Graph> network;
};
Result<TrainedNetwork> network_of(const TrainedFile& trained);

// The parameters that the graph takes from the starting point. An error if there are none.
Result<TakenParameters> match_start(const Graph& graph, const StartingPoint& start);

// Reads the file again. An error if its parameters differ from the settings.
Result<TrainedFile> reread(const StartingPoint& start, Reading reading = Reading::kWhole);

// Takes the file's parameters into the state (take_named_parameters). Errors name the file.
Result<TakenParameters> take_trained(const Graph& graph, const Format& format,
                                     const TrainedFile& trained, State& state);

// An entry of a start that quantize made: its settings (api/settings/quantise_settings.h).
inline constexpr const char* kQuantisedEntry = "quantised";

// The tokens that a language model knows. A frozen network has its own. A checkpoint has the tokens
// of the frozen network that its run wrote in the end. A copy has the tokens of its source. Null if
// these name none, as for a run that has not ended.
Result<std::shared_ptr<const Vocabulary>> vocabulary_of(const TrainedFile& trained);

// The entries of a copy, beside the parameters.
struct StartEntries {
  std::string source;
  std::string tokenizer = {};                              // of a network of texts
  std::shared_ptr<const Vocabulary> vocabulary = nullptr;  // of a language model
  std::string quantised = {};                              // kQuantisedEntry
  LearnedData learned = {};
};

// Writes the copy. The second copies the parameters of a file, which may stay in it.
Status write_start(const std::filesystem::path& path, const StartEntries& entries,
                   std::span<const NamedParameter> parameters);
Status write_start(const std::filesystem::path& path, const StartEntries& entries,
                   const TrainedFile& trained);

}  // namespace mantissa
