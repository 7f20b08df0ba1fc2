// Names of enumerators, as people write them.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mantissa::pipeline {

// The index of a name. An error lists all.
inline Result<size_t> find_name(std::string_view text, std::span<const std::string_view> names) {
  const auto found = std::ranges::find(names, text);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  std::string all;
  for (const std::string_view name : names) {
    all += (all.empty() ? "" : name == names.back() ? " or " : ", ") + std::string(name);
  }
  return invalid_input("'" + std::string(text) + "' is not " + all);
}

}  // namespace mantissa::pipeline
