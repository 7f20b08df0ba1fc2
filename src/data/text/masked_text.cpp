// Examples of masked language models.
#include <algorithm>

#include "base/random.h"
#include "data/text/text.h"

namespace mantissa {
namespace {

// Parts of 2^16: of all tokens those that are chosen, of these the masked ones, and then the random
// ones.
constexpr uint64_t kChosen = 9830, kMasked = 52429, kRandom = 58982;

struct Masking {
  int64_t sequence;
  Token mask;
  std::vector<Token> ordinary;  // tokens that stand for text
  uint64_t seed;

  uint64_t bits(uint32_t epoch, uint32_t example, int64_t place) const {
    return random_bits(seed, RandomStream::kMask, epoch,
                       static_cast<uint64_t>(example) * static_cast<uint64_t>(sequence) +
                           static_cast<uint64_t>(place));
  }
  static bool is_chosen(uint64_t bits) { return (bits & 0xFFFF) < kChosen; }
  // The token in the place of a chosen one.
  Token replaced(Token token, uint64_t bits) const {
    const uint64_t action = (bits >> 16) & 0xFFFF;
    if (action < kMasked) return mask;
    return action < kRandom ? ordinary[((bits >> 32) * ordinary.size()) >> 32] : token;
  }
};

std::vector<Token> ordinary_tokens(const Vocabulary& vocabulary) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < vocabulary.names().size(); ++i) {
    if (!vocabulary.is_special(static_cast<Token>(i))) tokens.push_back(static_cast<Token>(i));
  }
  return tokens;
}

}  // namespace

Examples masked_examples(std::span<const Token> tokens, int64_t sequence,
                         const Vocabulary& vocabulary, uint64_t seed) {
  const Masking masking{sequence, vocabulary.mask().value_or(0), ordinary_tokens(vocabulary), seed};
  Examples examples;
  examples.count = text_example_count(std::ssize(tokens), sequence);
  examples.specs = specs_for(TextTask::kMasks, sequence);
  examples.write = [tokens, masking](uint32_t epoch, uint32_t example,
                                     std::span<std::byte* const> places) {
    const Token* from = tokens.data() + example * masking.sequence;
    auto* inputs = reinterpret_cast<int32_t*>(places[0]);
    auto* labels = reinterpret_cast<int32_t*>(places[3]);
    std::fill_n(reinterpret_cast<int32_t*>(places[1]), masking.sequence, 0);
    *reinterpret_cast<int32_t*>(places[2]) = static_cast<int32_t>(masking.sequence);
    bool has_any = false;
    for (int64_t i = 0; i < masking.sequence; ++i) {
      const uint64_t bits = masking.bits(epoch, example, i);
      const bool is_chosen = Masking::is_chosen(bits);
      inputs[i] = is_chosen ? masking.replaced(from[i], bits) : from[i];
      labels[i] = is_chosen ? from[i] : -1;
      has_any |= is_chosen;
    }
    if (has_any) return;
    const auto place = static_cast<int64_t>(masking.bits(epoch, example, 0) %
                                            static_cast<uint64_t>(masking.sequence));
    inputs[place] = masking.mask;
    labels[place] = from[place];
  };
  return examples;
}

}  // namespace mantissa
