#include "api/settings/block_settings.h"

#include <string>

namespace mantissa {

Status parse_blocks(const std::string&, const std::string& text, QuantiseConfig& config) {
  config.blocks = block_kind_named(text).value_or(BlockKind::kNone);
  if (text.empty() || config.blocks != BlockKind::kNone) return {};
  return invalid_input("blocks: '" + text + "' is none; choose " + block_kind_names());
}

Status parse_group(const std::string&, const std::string& text, QuantiseConfig& config) {
  if (text.empty()) return {};
  for (const int64_t weights : {32, 64, 128}) {
    if (text == std::to_string(weights)) config.group = weights;
  }
  if (config.group != 0) return {};
  return invalid_input("group: '" + text + "': groups have 32, 64 or 128 weights");
}

Status choose_blocks(QuantiseConfig& config) {
  if (config.group == 0) return {};
  const std::string group = std::to_string(config.group);
  if (config.blocks == BlockKind::kNone) {
    const int bits = config.quantise.bits.all.weights;
    config.blocks = symmetric_kind(bits, config.group);
    if (config.blocks != BlockKind::kNone) return {};
    return invalid_input("weights: groups of " + group + " have 3 or 4 bits" +
                         (config.group == 32 ? ", or 8" : "") + ", not " + std::to_string(bits));
  }
  if (block_weights(config.blocks) == config.group) return {};
  return invalid_input("group: blocks of " + std::string(block_kind_name(config.blocks)) +
                       " have " + std::to_string(block_weights(config.blocks)) +
                       " weights, not " + group + "; leave --blocks out, and --weights and --group "
                       "choose them");
}

}  // namespace mantissa
