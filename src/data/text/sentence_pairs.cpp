// Examples of translation.
#include <algorithm>
#include <memory>

#include "data/text/text.h"

namespace mantissa {
namespace {

struct TokenPair {
  std::span<const Token> source, target;
};

// The pair that begins at a place.
TokenPair pair_at(std::span<const Token> tokens, int64_t begin, Token line_feed) {
  const auto source = tokens.begin() + begin;
  const auto middle = std::find(source, tokens.end(), line_feed);
  const auto end = std::find(middle + 1, tokens.end(), line_feed);
  return {{source, middle}, {middle + 1, end}};
}

// The beginnings of the pairs that fit.
std::vector<int64_t> begins_of(std::span<const Token> tokens, int64_t sequence, Token line_feed) {
  const auto lines = lines_of(tokens, line_feed);
  std::vector<int64_t> begins;
  for (size_t i = 0; i + 1 < lines.size(); i += 2) {
    const bool fits = std::ssize(lines[i]) <= sequence && std::ssize(lines[i + 1]) + 1 <= sequence;
    if (fits) begins.push_back(lines[i].data() - tokens.data());
  }
  return begins;
}

// Copies tokens to the front of `sequence` places, and fills the rest.
int32_t* write_padded(std::span<const Token> tokens, int64_t sequence, int32_t padding,
                      int32_t* to) {
  int32_t* end = std::copy(tokens.begin(), tokens.end(), to);
  std::fill(end, to + sequence, padding);
  return end;
}

}  // namespace

std::vector<std::span<const Token>> lines_of(std::span<const Token> tokens, Token line_feed) {
  std::vector<std::span<const Token>> lines;
  for (auto begin = tokens.begin(); begin != tokens.end();) {
    const auto end = std::find(begin, tokens.end(), line_feed);
    lines.emplace_back(begin, end);
    begin = end == tokens.end() ? end : end + 1;
  }
  return lines;
}

Examples pair_examples(std::span<const Token> tokens, int64_t sequence, Token line_feed) {
  const auto begins =
      std::make_shared<const std::vector<int64_t>>(begins_of(tokens, sequence, line_feed));
  Examples examples;
  examples.count = std::ssize(*begins);
  examples.specs = specs_for(TextTask::kTranslation, sequence);
  examples.length = [tokens, begins, line_feed](uint32_t example) {
    const auto [source, target] = pair_at(tokens, (*begins)[example], line_feed);
    return static_cast<int32_t>(std::max(source.size(), target.size() + 1));
  };
  examples.write = [tokens, begins, sequence, line_feed](uint32_t, uint32_t example,
                                                         std::span<std::byte* const> places) {
    const auto [source, target] = pair_at(tokens, (*begins)[example], line_feed);
    write_padded(source, sequence, line_feed, reinterpret_cast<int32_t*>(places[0]));
    *reinterpret_cast<int32_t*>(places[1]) = static_cast<int32_t>(source.size());
    auto* inputs = reinterpret_cast<int32_t*>(places[2]);
    inputs[0] = line_feed;
    write_padded(target, sequence - 1, line_feed, inputs + 1);
    *write_padded(target, sequence, kIgnoredLabel, reinterpret_cast<int32_t*>(places[3])) =
        line_feed;
  };
  return examples;
}

}  // namespace mantissa
