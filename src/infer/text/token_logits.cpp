#include "infer/text/token_logits.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/wide_values.h"

namespace mantissa {
namespace {

constexpr int kFloatLogitExponent = -20;
constexpr double kMostFloatLogit = 1024;

}  // namespace

TokenLogits logits_at(const Tensor& all, int64_t row) {
  const int64_t classes = all.shape.last();
  TokenLogits logits;
  if (all.type == DataType::kFloat) {
    logits.exponent = kFloatLogitExponent;
    const float* from = all.as<float>() + row * classes;
    for (int64_t i = 0; i < classes; ++i) {
      const double clipped = std::clamp<double>(from[i], -kMostFloatLogit, kMostFloatLogit);
      logits.mantissas.push_back(
          static_cast<int32_t>(std::llrint(std::ldexp(clipped, -kFloatLogitExponent))));
    }
    return logits;
  }
  logits.exponent = all.row_exponent(row);
  const ops::Mantissas from(all);
  for (int64_t i = 0; i < classes; ++i) {
    logits.mantissas.push_back(static_cast<int32_t>(from[row * classes + i]));
  }
  return logits;
}

bool is_before(const TokenLogits& logits, Token a, Token b) {
  const int32_t first = logits.mantissas[a], second = logits.mantissas[b];
  return first != second ? first > second : a < b;
}

std::vector<Token> by_logits(const TokenLogits& logits, int64_t count) {
  std::vector<Token> order(logits.mantissas.size());
  std::iota(order.begin(), order.end(), Token{0});
  const auto end = order.begin() + std::min(count, std::ssize(order));
  std::partial_sort(order.begin(), end, order.end(),
                    [&](Token a, Token b) { return is_before(logits, a, b); });
  order.erase(end, order.end());
  return order;
}

std::vector<int32_t> probabilities_of(const TokenLogits& logits,
                                      const kernels::SoftmaxKernels& softmax) {
  std::vector<int32_t> probabilities(logits.mantissas.size());
  softmax.probabilities({.logits = logits.mantissas.data(),
                         .exponent = logits.exponent,
                         .classes = std::ssize(logits.mantissas)},
                        probabilities.data(), 0, 1);
  return probabilities;
}

}  // namespace mantissa
