#include "start/load_language_model.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files/atomic_file.h"
#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "formats/arrays/safetensors_start.h"
#include "infer/tasks/language.h"
#include "networks/imported_network.h"
#include "networks/language/model_file.h"
#include "plan/passes/network_format.h"
#include "run/settings/starting_point.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

std::string metadata_entry(const SafetensorsHeader& header, const char* name) {
  const auto found = header.metadata.find(name);
  return found == header.metadata.end() ? "" : found->second;
}

// A network with the numbers of its parameters, frozen without examples.
Result<FrozenNetwork> frozen_model(Graph network, std::string tokenizer,
                             std::span<const NamedParameter> parameters, const Format& format) {
  FrozenDescription description;
  description.network = std::move(network);
  description.format = format;
  MANTISSA_ASSIGN(const LanguageOptions language, language_options(description.network));
  description.tokenizer = std::move(tokenizer);
  MANTISSA_ASSIGN(const ByteBpeEntry entry, parse_byte_bpe(description.tokenizer));
  description.class_names = entry.tokenizer.tokens();
  if (std::ssize(description.class_names) != language.vocabulary) {
    return invalid_input("its tokenizer has other tokens than its network");
  }
  Graph graph = freeze_graph(in_format(description.network, format));
  MANTISSA_ASSIGN(State state, State::create(frozen_layout(graph, format)));
  MANTISSA_ASSIGN(const TakenParameters taken,
                  take_named_parameters(graph, format, parameters, state));
  if (!taken.initial.empty()) {
    return invalid_input("lacks the parameter " + taken.initial[0] + " of its network");
  }
  return FrozenNetwork{std::move(description), std::move(graph), std::move(state)};
}

Result<FrozenNetwork> from_model_file(const fs::path& path, const Format& format, int64_t sequence,
                                      int64_t usual) {
  MANTISSA_ASSIGN(const LanguageModelFile file, read_language_model(path));
  if (sequence == 0) sequence = file.positions > 1 ? std::min(usual, file.positions) : usual;
  MANTISSA_ASSIGN(onnx::ImportedNetwork imported, import_language_model(file, sequence));
  const std::vector<NamedParameter> parameters = named_parameters(imported);
  MANTISSA_ASSIGN(std::string tokenizer, tokenizer_entry(file));
  return frozen_model(std::move(imported.graph), std::move(tokenizer), parameters, format);
}

Result<FrozenNetwork> from_imported_file(const fs::path& path, const Format& format,
                                         int64_t sequence) {
  MANTISSA_ASSIGN(const TrainedFile file, read_trained(path));
  MANTISSA_ASSIGN(TrainedNetwork trained, network_of(file));
  if (!trained.network) return invalid_input("has no network");
  MANTISSA_ASSIGN(const LanguageOptions language, language_options(*trained.network));
  if (sequence != 0 && sequence != language.sequence) {
    return invalid_input("sequence: the file has " + std::to_string(language.sequence) +
                         " positions; mantissa import --sequence " + std::to_string(sequence) +
                         " makes one with as many");
  }
  return frozen_model(std::move(*trained.network), file.tokenizer, file.parameters, format);
}

}  // namespace

Result<bool> is_imported_language_model(const fs::path& path) {
  MANTISSA_ASSIGN(const bool is_foreign, is_model_file(path));
  if (is_foreign) return true;
  if (is_onnx_file(path)) return false;
  auto file = InputFile::open(path);
  if (!file.ok()) return false;  // whoever reads it says why
  const auto read = [&](std::span<std::byte> out) { return file->read_exactly(out); };
  const auto start = read_safetensors_start({path, file->size(), read});
  return start.ok() && metadata_entry(start->header, "kind") == kImportedKind &&
         is_byte_bpe(metadata_entry(start->header, kTokenizerEntry));
}

Result<FrozenNetwork> load_language_model(const fs::path& path, const Format& format,
                                          int64_t sequence, int64_t usual) {
  if (!format.is_float() && format.tensor_values) {
    return invalid_input("format: " + to_string(format) +
                         " has one exponent for a value, which would have to be calibrated; fp32 "
                         "and bfp:block=channel,blocks=token need none");
  }
  MANTISSA_ASSIGN(const bool is_foreign, is_model_file(path));
  auto network = is_foreign ? from_model_file(path, format, sequence, usual)
                            : from_imported_file(path, format, sequence);
  if (network.ok()) return network;
  Error error = network.error();
  if (error.message.find(path.string()) == std::string::npos) {
    error.message = path.string() + ": " + error.message;
  }
  return error;
}

}  // namespace mantissa
