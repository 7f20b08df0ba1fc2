// The blocks that --blocks, --weights and --group of quantize name together.
#pragma once

#include <string>

#include "api/settings/quantise_settings.h"
#include "base/result.h"

namespace mantissa {

// Rows of the table of settings.
Status parse_blocks(const std::string& name, const std::string& text, QuantiseConfig& config);
Status parse_group(const std::string& name, const std::string& text, QuantiseConfig& config);

// With --group, --weights chooses the bits, unless --blocks names a kind: then both must agree.
Status choose_blocks(QuantiseConfig& config);

}  // namespace mantissa
