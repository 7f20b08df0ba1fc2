#include "train/text_settings.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "data/examples.h"
#include "data/wordpiece.h"
#include "graph/input_shapes.h"
#include "train/network.h"

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
  MANTISSA_ASSIGN(TrainedFile trained, read_trained(file));
  return std::move(trained.tokenizer);
}

}  // namespace

bool reads_texts(const RunConfig& config) {
  return config.network &&
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
  if (!config.start || config.start->tokenizer.empty()) {
    return invalid_input("the network '" + config.model +
                         "' takes texts, and there is no tokenizer: --from names an encoder that "
                         "import wrote, or a run that began with one");
  }
  MANTISSA_ASSIGN(WordPiece tokenizer, parse_wordpiece(config.start->tokenizer));
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
