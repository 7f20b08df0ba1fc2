// The logits of a language model for one token.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "data/text/text.h"
#include "kernels/softmax/softmax.h"
#include "tensor/tensor.h"

namespace mantissa {

// Logits of one token as mantissas at an exponent; of fp32 they are rounded to 2^-20.
struct TokenLogits {
  std::vector<int32_t> mantissas;
  int exponent = 0;
};

// The logits of a row of a network's results.
TokenLogits logits_at(const Tensor& all, int64_t row);

// Whether one token comes before another: by their logits, of equal ones by their numbers.
bool is_before(const TokenLogits& logits, Token a, Token b);

// This many tokens in this order.
std::vector<Token> by_logits(const TokenLogits& logits,
                             int64_t count = std::numeric_limits<int64_t>::max());

// Their softmax in Q30.
std::vector<int32_t> probabilities_of(const TokenLogits& logits,
                                      const kernels::SoftmaxKernels& softmax);

}  // namespace mantissa
