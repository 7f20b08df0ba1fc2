#include "formats/json_text.h"

#include <array>
#include <cstdint>
#include <limits>

namespace mantissa {

bool exceeds_json_limits(std::string_view text, int64_t most_entries) {
  if (static_cast<int64_t>(text.size()) > kMostJsonBytes) return true;
  std::array<int64_t, kMostJsonDepth + 1> commas{};  // at each depth, in the open value
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMostJsonDepth) return true;
      // Lists may have any length.
      commas[depth] = c == '{' ? 1 : std::numeric_limits<int64_t>::min();
    } else if (c == ',') {
      if (++commas[depth] > most_entries) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace mantissa
