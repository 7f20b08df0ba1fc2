#include "start/load_encoder.h"

#include <memory>
#include <utility>
#include <vector>

#include "formats/arrays/safetensors.h"
#include "infer/frozen_network.h"
#include "models/bert.h"
#include "networks/bert_file.h"
#include "networks/imported_network.h"
#include "plan/passes/network_format.h"
#include "run/settings/starting_point.h"

namespace mantissa {
namespace {

// A network of that kind, before a format changed it, as in files.
struct EncoderParts {
  Graph network;
  WordPiece tokenizer;
  std::vector<onnx::ImportedParameter> imported;  // of a file in BERT's layout
  TrainedFile file;                               // else
};

Status check_encoder(const Graph& network) {
  const char* const names[] = {kBertTokens, kBertSegments, kBertLengths};
  bool fits = network.inputs.size() == std::size(names) && network.outputs.size() == 1;
  for (size_t i = 0; fits && i < std::size(names); ++i) {
    const Value& value = network.values[network.inputs[i]];
    fits = value.name == names[i] && value.element == Element::kIndex;
  }
  if (fits && network.values[network.outputs[0]].shape.rank == 2) return {};
  return invalid_input("network '" + network.name +
                       "' is no encoder: that has the inputs 'tokens' and 'segments' (int32, "
                       "[sequence]) and 'lengths' (int32, []), and one output, [sequence, "
                       "channels]");
}

Result<EncoderParts> read_parts(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  if (is_folder) {
    MANTISSA_ASSIGN(ImportedEncoder encoder, import_bert(path, 0));
    return EncoderParts{std::move(encoder.network.graph),
                        std::move(encoder.tokenizer),
                        std::move(encoder.network.parameters),
                        {}};
  }
  MANTISSA_ASSIGN(TrainedFile file, read_trained(path));
  const auto entry = file.file.metadata.find(kTokenizerEntry);
  if (entry == file.file.metadata.end()) {
    return invalid_input("has no tokenizer: name a file that `mantissa import` made of an encoder");
  }
  MANTISSA_ASSIGN(WordPiece tokenizer, parse_wordpiece(entry->second));
  MANTISSA_ASSIGN(TrainedNetwork trained, network_of(file));
  if (!trained.network) return invalid_input("has no network");
  return EncoderParts{std::move(*trained.network), std::move(tokenizer), {}, std::move(file)};
}

Result<Encoder> make_encoder(EncoderParts parts, const Format& format) {
  MANTISSA_RETURN_IF_ERROR(check_encoder(parts.network));
  Graph graph = freeze_graph(in_format(parts.network, format));
  MANTISSA_ASSIGN(State state, State::create(frozen_layout(graph, format)));
  if (!parts.imported.empty()) {
    onnx::ImportedNetwork imported;
    imported.parameters = std::move(parts.imported);
    parts.file.imported = std::make_shared<const onnx::ImportedNetwork>(std::move(imported));
    parts.file.parameters = named_parameters(*parts.file.imported);
  }
  MANTISSA_ASSIGN(const TakenParameters taken,
                  take_named_parameters(graph, format, parts.file.parameters, state));
  if (!taken.initial.empty()) {
    return invalid_input("lacks the parameter " + taken.initial[0] + " of its network");
  }
  return Encoder{std::move(graph), format, std::move(state), std::move(parts.tokenizer)};
}

// Errors name the file that was found behind a path, or else the path.
Error in_file(const std::filesystem::path& path, Error error) {
  if (error.message.find(path.string()) == std::string::npos) {
    error.message = path.string() + ": " + error.message;
  }
  return error;
}

}  // namespace

Result<Encoder> load_encoder(const std::filesystem::path& path, const Format& format) {
  if (!format.is_float() && format.tensor_values) {
    return invalid_input("format: " + to_string(format) +
                         " has one exponent for a value, which would have to be calibrated; fp32 "
                         "and bfp:block=channel,blocks=token need none");
  }
  auto parts = read_parts(path);
  if (parts.ok()) {
    auto encoder = make_encoder(std::move(*parts), format);
    if (encoder.ok()) return encoder;
    return in_file(path, encoder.error());
  }
  return in_file(path, parts.error());
}

}  // namespace mantissa
