#include "infer/text/beam.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/random.h"

namespace mantissa {
namespace {

constexpr Token kEnd = 0;
constexpr int64_t kVocabulary = 4, kMost = 5;
constexpr int kExponent = -8;

// A language in which logits of the next token are random numbers of what stands before.
TokenLogits logits_behind(std::span<const Token> tokens, uint64_t seed) {
  uint64_t prefix = 1;
  for (const Token token : tokens) prefix = prefix * kVocabulary + token;
  TokenLogits logits{.mantissas = {}, .exponent = kExponent};
  for (int64_t i = 0; i < kVocabulary; ++i) {
    const uint64_t bits = random_bits(seed, RandomStream::kGenerate, 0,
                                      prefix * kVocabulary + static_cast<uint64_t>(i));
    logits.mantissas.push_back(static_cast<int32_t>(uniform_below(bits, 1024)));
  }
  return logits;
}

int64_t cost_of(const TokenLogits& logits, Token token) {
  const int32_t label = token;
  return kernels::kSoftmaxReference
      .loss({.logits = logits.mantissas.data(),
             .labels = &label,
             .exponent = logits.exponent,
             .classes = kVocabulary},
            0, 1)
      .loss_q24;
}

// The cheapest per token of all sentences that end.
void search_all(const Hypothesis& begin, uint64_t seed, std::optional<Hypothesis>& best) {
  const TokenLogits logits = logits_behind(begin.tokens, seed);
  for (Token token = 0; token < kVocabulary; ++token) {
    Hypothesis next{begin.tokens, begin.cost_q24 + cost_of(logits, token)};
    if (token != kEnd) {
      next.tokens.push_back(token);
      if (std::ssize(next.tokens) < kMost) search_all(next, seed, best);
      continue;
    }
    const bool is_better = !best || next.cost_q24 * (std::ssize(best->tokens) + 1) <
                                        best->cost_q24 * (std::ssize(next.tokens) + 1);
    if (is_better) best = next;
  }
}

Hypothesis search(int64_t width, uint64_t seed) {
  Beam beam(width, kEnd, kMost);
  while (!beam.live().empty()) {
    std::vector<TokenLogits> logits;
    for (const Hypothesis& one : beam.live()) logits.push_back(logits_behind(one.tokens, seed));
    beam.extend(std::move(logits), kernels::kSoftmaxReference);
  }
  return beam.best();
}

TEST(Beam, ThatIsWideEnoughFindsTheBestOfAll) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::optional<Hypothesis> best;
    search_all({}, seed, best);
    const Hypothesis found = search(2000, seed);
    EXPECT_EQ(found.tokens, best->tokens) << seed;
    EXPECT_EQ(found.cost_q24, best->cost_q24) << seed;
  }
}

TEST(Beam, OfOneTakesTheLikeliestEachTime) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::vector<Token> tokens;
    while (std::ssize(tokens) < kMost) {
      const Token next = by_logits(logits_behind(tokens, seed), 1)[0];
      if (next == kEnd) break;
      tokens.push_back(next);
    }
    EXPECT_EQ(search(1, seed).tokens, tokens) << seed;
  }
}

TEST(Beam, OfASentenceWithoutAnEndHasTheMostTokens) {
  Beam beam(3, kEnd, kMost);
  while (!beam.live().empty()) {
    std::vector<TokenLogits> logits(beam.live().size());
    for (TokenLogits& one : logits) one = {.mantissas = {-100000, 3, 2, 1}, .exponent = 0};
    beam.extend(std::move(logits), kernels::kSoftmaxReference);
  }
  EXPECT_EQ(beam.best().tokens, std::vector<Token>(kMost, 1));
}

}  // namespace
}  // namespace mantissa
