// The hypotheses of a beam search.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizers/vocabulary.h"
#include "infer/text/token_logits.h"
#include "kernels/softmax/softmax.h"

namespace mantissa {

struct Hypothesis {
  std::vector<Token> tokens;  // without the one that ends it
  int64_t cost_q24 = 0;       // the sum of -log2(probability)
  size_t parent = 0;          // goes on from that one of those before
};

// The search for one sentence's translation.
class Beam {
 public:
  Beam(int64_t width, Token end, int64_t most_tokens)
      : width_(width), most_(most_tokens), end_(end), live_(1) {}

  // The hypotheses that go on, the cheapest first: none if the search is over.
  const std::vector<Hypothesis>& live() const { return live_; }

  // Extends each of them by the network's logits for its next token.
  void extend(std::vector<TokenLogits> logits, const kernels::SoftmaxKernels& softmax);

  // The hypothesis with the least cost per token; if none has ended yet, the cheapest.
  const Hypothesis& best() const;

 private:
  void finish(const Hypothesis& hypothesis);

  int64_t width_, most_;
  Token end_;
  std::vector<Hypothesis> live_;
  int64_t ended_ = 0;
  Hypothesis best_;  // of those that ended
};

}  // namespace mantissa
