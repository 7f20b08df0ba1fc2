#include "start/language/sequences.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mantissa {

std::vector<TokenSequence> even_sequences(const Vocabulary& vocabulary,
                                          const std::vector<Token>& part,
                                          const TextOptions& options, int64_t count) {
  const Examples examples = examples_for(vocabulary, part, options, 0);
  count = std::min(count, examples.count);
  const auto length = static_cast<size_t>(options.sequence);
  std::vector<TokenSequence> sequences;
  for (int64_t i = 0; i < count; ++i) {
    TokenSequence sequence{std::vector<int32_t>(length), std::vector<int32_t>(length)};
    const std::array places = {reinterpret_cast<std::byte*>(sequence.tokens.data()),
                               reinterpret_cast<std::byte*>(sequence.labels.data())};
    examples.write(0, static_cast<uint32_t>(i * examples.count / count), places);
    const auto last = std::find_if(sequence.labels.rbegin(), sequence.labels.rend(),
                                   [](int32_t label) { return label != kIgnoredLabel; });
    sequence.positions = sequence.labels.rend() - last;
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

int64_t count_positions(const std::vector<TokenSequence>& sequences) {
  int64_t count = 0;
  for (const TokenSequence& sequence : sequences) count += sequence.positions;
  return count;
}

}  // namespace mantissa
