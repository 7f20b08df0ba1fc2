// JSON as a tree whose values know their lines: for files that people write and edit, so that an
// error can say where it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace mantissa {

struct JsonTree {
  enum class Kind : uint8_t { kNull, kTruth, kWhole, kReal, kText, kList, kObject };

  Kind kind = Kind::kNull;
  int line = 1;  // the value ends there; a list or an object begins there
  // The value, if the kind is kTruth, kWhole, kReal or kText.
  std::variant<std::monostate, bool, int64_t, double, std::string> scalar = {};
  std::vector<std::string> keys = {};  // of an object: as many as items, no two the same
  std::vector<JsonTree> items = {};    // of a list or an object

  // An entry of an object, or null.
  const JsonTree* find(std::string_view key) const;
};

// Parses a text, within the depth and the entries of json_text.h and up to `most_values` values in
// all. Errors are one line that begins with "line N: ": text that is no JSON or exceeds these
// limits, a key that stands twice in one object, whole numbers that do not fit 64 bits.
Result<JsonTree> parse_json_tree(std::string_view text, int64_t most_values);

// A text as a JSON string, in quotes.
std::string json_quoted(const std::string& text);

}  // namespace mantissa
