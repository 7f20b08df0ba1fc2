#include "start/language/blocks.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/wildcard.h"
#include "networks/imported_network.h"
#include "networks/language/block_network.h"
#include "runtime/weight_blocks.h"

namespace mantissa {
namespace {

bool is_table(const Node& node) { return node.name == "embedding" || node.name == "classifier"; }

// A linear layer of a block. Norms have a vector.
bool is_layer(const Graph& graph, const Node& node) {
  return node.name.starts_with("block") && !node.parameters.empty() &&
         graph.parameters[static_cast<size_t>(node.parameters[0])].shape.rank > 1;
}

// The kind, or the one with the largest smaller groups that divide a row.
BlockKind kind_of_rows(BlockKind kind, int64_t columns) {
  BlockKind found = kind;
  for (int64_t group = block_weights(kind); columns % group != 0; group /= 2) {
    const BlockKind smaller = symmetric_kind(block_bits(kind), group / 2);
    if (smaller == BlockKind::kNone) break;
    found = smaller;
  }
  return found;
}

}  // namespace

Result<LanguageBlocks> LanguageBlocks::choose(FloatLanguageModel& model, BlockKind kind,
                                              const std::vector<std::string>& wide) {
  LanguageBlocks blocks(model);
  std::vector<bool> fits(wide.size());
  for (const Node& node : model.graph.nodes) {
    if (!is_table(node) && !is_layer(model.graph, node)) continue;
    BlockKind& own = blocks.kinds_[static_cast<size_t>(node.parameters[0])];
    const int64_t columns = blocks.shape_of(node.parameters[0]).last();
    own = is_table(node) ? BlockKind::kQ8_0 : kind_of_rows(kind, columns);
    for (size_t i = 0; i < wide.size(); ++i) {
      if (is_table(node) || !matches_wildcard(wide[i], node.name)) continue;
      fits[i] = true;
      own = BlockKind::kQ8_0;
    }
    blocks.smaller_groups_ += own != kind && own != BlockKind::kQ8_0;
    MANTISSA_RETURN_IF_ERROR(blocks.check_weights(node.name, node.parameters[0]));
  }
  for (size_t i = 0; i < wide.size(); ++i) {
    if (fits[i]) continue;
    return invalid_input("bits: '" + wide[i] +
                         "' fits no layer; there are block1.query, key, value, project, gate, up "
                         "and down, and those of the other blocks");
  }
  return blocks;
}

Status LanguageBlocks::check_weights(const std::string& layer, int parameter) const {
  const int64_t columns = shape_of(parameter).last(), group = block_weights(kind(parameter));
  if (columns % group != 0) {
    return invalid_input(layer + " has rows of " + std::to_string(columns) +
                         " weights, which groups of " + std::to_string(group) +
                         " do not divide");
  }
  const bool fit = std::ranges::all_of(model_->numbers(parameter), [](float number) {
    return std::abs(static_cast<double>(number)) <= kLargestInBlocks;
  });
  if (fit) return {};
  return invalid_input(layer + " has a weight beyond the largest of blocks, 65504");
}

int64_t LanguageBlocks::bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i] == BlockKind::kNone) continue;
    bytes += bytes_in_blocks(kinds_[i], shape_of(static_cast<int>(i)).count());
  }
  return bytes;
}

int64_t LanguageBlocks::largest_layer() const {
  int64_t largest = 0;
  for (const Node& node : model_->graph.nodes) {
    if (!is_layer(model_->graph, node)) continue;
    largest = std::max(largest, shape_of(node.parameters[0]).count());
  }
  return largest;
}

void LanguageBlocks::set(int parameter, std::vector<std::byte> blocks) {
  const BlockKind own = kind(parameter);
  const int64_t row_bytes = bytes_in_blocks(own, shape_of(parameter).last());
  auto number = model_->numbers(parameter).begin();
  for (int64_t at = 0; at < std::ssize(blocks); at += row_bytes) {
    const std::span row(blocks.data() + at, static_cast<size_t>(row_bytes));
    for (const double each : block_numbers(own, row)) *number++ = static_cast<float>(each);
  }
  blocks_[static_cast<size_t>(parameter)] = std::move(blocks);
}

void LanguageBlocks::pack_tables() {
  for (const Node& node : model_->graph.nodes) {
    if (!is_table(node)) continue;
    const int parameter = node.parameters[0];
    if (!blocks_[static_cast<size_t>(parameter)].empty()) continue;  // both have the same weights
    const auto columns = static_cast<size_t>(shape_of(parameter).last());
    std::vector<std::byte> blocks;
    for (auto rest = model_->numbers(parameter); !rest.empty(); rest = rest.subspan(columns)) {
      const auto own = rest.first(columns);
      const std::vector<double> row(own.begin(), own.end());
      std::ranges::copy(packed_blocks(kind(parameter), row), std::back_inserter(blocks));
    }
    set(parameter, std::move(blocks));
  }
}

Result<std::string> LanguageBlocks::write(const std::string& path, const std::string& source,
                                          const std::map<std::string, std::string>& entries) {
  onnx::ImportedNetwork written;
  MANTISSA_ASSIGN(written.graph, with_weight_blocks(model_->graph, [&](int parameter) {
                    return kind(parameter);
                  }));
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const Parameter& parameter = written.graph.parameters[i];
    onnx::ImportedParameter own{parameter.name, parameter.shape, {}, {}};
    own.blocks = kinds_[i];
    if (own.blocks == BlockKind::kNone) {
      const std::span<const float> numbers = model_->numbers(static_cast<int>(i));
      own.floats.assign(numbers.begin(), numbers.end());
    } else {
      own.bytes = blocks_[i];
    }
    written.parameters.push_back(std::move(own));
  }
  MANTISSA_RETURN_IF_ERROR(write_imported(path, written, source, entries));
  return describe_blocks(written.graph);
}

}  // namespace mantissa
