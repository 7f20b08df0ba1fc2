// JSON from files, which may hold anything.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace mantissa {

constexpr int kMostJsonDepth = 32;                     // objects and lists within each other
constexpr int64_t kMostJsonEntries = 1000;             // of one object
constexpr int64_t kMostJsonBytes = int64_t{64} << 20;  // as a tree up to twenty times as many

// Whether a text exceeds these limits. JSON that Mantissa writes stays far below them. Copying or
// printing deeper JSON would overflow the stack; nlohmann::ordered_json looks at all entries of an
// object for each one.
bool exceeds_json_limits(std::string_view text, int64_t most_entries = kMostJsonEntries);

// The value of a JSON text. It is discarded (is_discarded()) if the text is no JSON or exceeds the
// limits. Vocabularies have more entries: not for nlohmann::ordered_json.
template <typename Json = nlohmann::json>
Json parse_json(std::string_view text, int64_t most_entries = kMostJsonEntries) {
  if (exceeds_json_limits(text, most_entries)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

}  // namespace mantissa
