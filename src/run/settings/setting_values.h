// Parses values of settings that are neither a number nor a word.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "run/settings/run_config.h"

namespace mantissa {

// "true" or "false".
Status parse_switch(const std::string& name, const std::string& text, bool& field);

// "0.5" or "0.485,0.456,0.406": numbers from 0 to 1e6.
Result<std::vector<double>> parse_reals(const std::string& text);

// "200,100,50", each from 1 to 65536; nothing for "".
Result<std::vector<int64_t>> parse_widths(const std::string& text);
std::string widths_text(const std::vector<int64_t>& widths);

// A fraction below 1, or a whole number of examples.
Status parse_validation(const std::string& text, RunConfig& config);

}  // namespace mantissa
