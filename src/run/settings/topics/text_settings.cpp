#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/files/file_system.h"
#include "data/batches/examples.h"
#include "data/tokenizers/wordpiece.h"
#include "graph/input_shapes.h"
#include "networks/network.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "run/settings/topics.h"

namespace mantissa {
namespace {

int64_t sequence_of(const Graph& network) {
  for (const int input : network.inputs) {
    const Value& value = network.values[input];
    if (value.name == kTokenTensor) return value.shape[0];
  }
  return 0;
}

Result<Graph> with_sequence(Graph network, int64_t sequence) {
  std::vector<Shape> shapes;
  for (const int input : network.inputs) {
    const bool has_positions = network.values[input].shape.rank > 0;
    shapes.push_back(has_positions ? Shape{sequence} : Shape{});
  }
  auto other = with_input_shapes(std::move(network), shapes);
  if (other.ok()) return other;
  return invalid_input("sequence " + std::to_string(sequence) + ": " + other.error().message);
}

// The tokenizer of a run's checkpoint lies in the file that the run itself started from.
Result<std::string> tokenizer_beside(const StartingPoint& start) {
  const std::filesystem::path file = start.path.parent_path() / kStartFile;
  MANTISSA_ASSIGN(const bool there, is_there(file));
  if (!there) return std::string();
  MANTISSA_ASSIGN(TrainedFile trained, read_trained(file, {}, Reading::kByParameter));
  return std::move(trained.tokenizer);
}

// The number of tokens in the network's embedding; 0: it has none.
int64_t known_tokens(const Graph& network) {
  int64_t known = 0;
  for (const Node& node : network.nodes) {
    if (node.op != &ops::kEmbedding || network.values[node.inputs[0]].name != kTokenTensor)
      continue;
    const int64_t rows = node.attributes.as<ops::EmbeddingAttributes>().rows;
    known = known == 0 ? rows : std::min(known, rows);
  }
  return known;
}

// Gives a network without a tokenizer the tokenizer of a file.
Status take_tokenizer(const std::string& file, StartingPoint& start) {
  if (!start.tokenizer.empty()) {
    return invalid_input("vocabulary: " + start.path.string() + " brings its own tokenizer");
  }
  MANTISSA_ASSIGN(const WordPiece tokenizer, read_wordpiece(file));
  start.tokenizer = to_json(tokenizer);
  return {};
}

}  // namespace

bool reads_texts(const RunConfig& config) {
  return config.network && !reads_named_arrays(config) &&
         (is_text_encoder(*config.network) || is_text_classifier(*config.network));
}

Status take_text(const std::map<std::string, std::string>& settings, RunConfig& config) {
  if (!reads_texts(config)) {
    if (!settings.contains("text-column")) return {};
    return invalid_input(
        "text-column: is for networks of texts, such as --from an encoder that import wrote");
  }
  if (config.start && config.start->tokenizer.empty()) {
    MANTISSA_ASSIGN(config.start->tokenizer, tokenizer_beside(*config.start));
  }
  if (config.vocabulary > 0) {
    return invalid_input("vocabulary: names the file of a tokenizer, and " +
                         std::to_string(config.vocabulary) + " is a number of pieces to learn");
  }
  // The copy of the start keeps the tokenizer, so that a resumed run has it without the file.
  const std::string file = std::exchange(config.vocabulary_file, "");
  if (config.start && !file.empty()) {
    MANTISSA_RETURN_IF_ERROR(take_tokenizer(file, *config.start));
  }
  if (!config.start || config.start->tokenizer.empty()) {
    return invalid_input("the network '" + config.model +
                         "' takes texts, and there is no tokenizer: --from names an encoder that "
                         "import wrote, a run that began with one, or another network and "
                         "--vocabulary its tokenizer");
  }
  MANTISSA_ASSIGN(WordPiece tokenizer, parse_wordpiece(config.start->tokenizer));
  const int64_t known = known_tokens(*config.network);
  if (const auto pieces = std::ssize(tokenizer.pieces()); pieces > known) {
    return invalid_input("the tokenizer has " + std::to_string(pieces) +
                         " pieces, and the network '" + config.model + "' knows " +
                         std::to_string(known) + " tokens");
  }
  TextColumn& text = config.table.text;
  text.tokenizer = std::make_shared<const WordPiece>(std::move(tokenizer));
  if (const int64_t wanted = std::exchange(config.sequence, 0); wanted > 0) {
    MANTISSA_ASSIGN(config.network, with_sequence(std::move(*config.network), wanted));
  }
  text.sequence = sequence_of(*config.network);
  if (!settings.contains("optimizer")) config.optimizer = OptimizerKind::kAdam;
  if (!settings.contains("batch-size")) config.batch_size = 16;
  return {};
}

}  // namespace mantissa
