// Guesses the intended word from a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mantissa::cli {

// The candidates that `word` is probably a mistyping, a beginning or the initials of, best first,
// at most two; empty if nothing is near.
std::vector<std::string> near_misses(std::string_view word,
                                     const std::vector<std::string>& candidates);

// "; did you mean --batch-size?" with `prefix` ("--") before each candidate, or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::string_view prefix);

}  // namespace mantissa::cli
