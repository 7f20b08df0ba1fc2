#include "infer/text/beam.h"

#include <algorithm>
#include <utility>

#include "numerics/exponential.h"

namespace mantissa {
namespace {

// A hypothesis with one more token.
struct Extension {
  size_t from = 0;  // its number among the live ones
  Token token = 0;
  int64_t cost_q24 = 0;
};

int64_t cost_of(const TokenLogits& logits, Token token, const kernels::SoftmaxKernels& softmax) {
  const int32_t label = token;
  return softmax
      .loss({.logits = logits.mantissas.data(),
             .labels = &label,
             .exponent = logits.exponent,
             .classes = std::ssize(logits.mantissas)},
            0, 1)
      .loss_q24;
}

// How much more a token costs than the likeliest one: losses of one row differ by logits alone.
int64_t more_cost_of(const TokenLogits& logits, Token token, Token likeliest) {
  const int64_t difference =
      int64_t{logits.mantissas[token]} - int64_t{logits.mantissas[likeliest]};
  return -256 * natural_to_log2_q16(difference, logits.exponent);
}

// Whether a costs less per token than b. The token that ends each counts.
bool is_better(const Hypothesis& a, const Hypothesis& b) {
  return a.cost_q24 * (std::ssize(b.tokens) + 1) < b.cost_q24 * (std::ssize(a.tokens) + 1);
}

}  // namespace

void Beam::finish(const Hypothesis& hypothesis) {
  if (ended_++ == 0 || is_better(hypothesis, best_)) best_ = hypothesis;
}

void Beam::extend(std::vector<TokenLogits> logits, const kernels::SoftmaxKernels& softmax) {
  std::vector<Extension> extensions;
  for (size_t i = 0; i < live_.size(); ++i) {
    // One more than there is room for, because one of them may end.
    const std::vector<Token> tokens = by_logits(logits[i], width_ + 1);
    const int64_t least_cost = live_[i].cost_q24 + cost_of(logits[i], tokens[0], softmax);
    for (const Token token : tokens) {
      extensions.push_back({i, token, least_cost + more_cost_of(logits[i], token, tokens[0])});
    }
  }
  std::stable_sort(extensions.begin(), extensions.end(),
                   [](const Extension& a, const Extension& b) { return a.cost_q24 < b.cost_q24; });
  std::vector<Hypothesis> next;
  for (const Extension& extension : extensions) {
    if (std::ssize(next) == width_ - ended_) break;
    Hypothesis hypothesis{live_[extension.from].tokens, extension.cost_q24, extension.from};
    if (extension.token == end_) {
      finish(hypothesis);
      continue;
    }
    hypothesis.tokens.push_back(extension.token);
    next.push_back(std::move(hypothesis));
  }
  live_ = std::move(next);
  if (live_.empty() || std::ssize(live_[0].tokens) < most_) return;
  if (ended_ == 0) best_ = live_[0];
  live_.clear();
}

const Hypothesis& Beam::best() const { return ended_ > 0 || live_.empty() ? best_ : live_[0]; }

}  // namespace mantissa
