// The loops of attention, compiled for each instruction set. All inner loops run over keys.

template <typename Score>
void score_row(const AttentionHead& head, int64_t query, int64_t keys, Score* scores) {
  const int16_t* q = head.q + query * head.channels;
  std::fill_n(scores, keys, Score{0});
  for (int64_t c = 0; c < head.channels; ++c) {
    const Score factor = q[c];
    const int16_t* k = head.kt + c * head.keys;
    for (int64_t j = 0; j < keys; ++j) scores[j] += factor * k[j];
  }
}

// powers = e^(score - largest) in Q30, and their sum.
template <typename Score>
int64_t power_row(const AttentionHead& head, int64_t keys, const Score* scores, int32_t* powers) {
  const int64_t largest = *std::max_element(scores, scores + keys);
  int64_t sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const int64_t exponent = rescale_rne((scores[j] - largest) * head.scale, head.shift);
    powers[j] = static_cast<int32_t>(exp2_q30(exponent));
    sum += powers[j];
  }
  return sum;
}

// row.p: the probabilities of the first `keys` keys, which are at least one.
inline void probabilities(const AttentionHead& head, const AttentionRow& row, int64_t query,
                          int64_t keys) {
  int64_t sum = 0;
  if (head.narrow_scores) {
    auto* scores = reinterpret_cast<int32_t*>(row.scores);
    score_row(head, query, keys, scores);
    sum = power_row(head, keys, scores, row.powers);
  } else {
    score_row(head, query, keys, row.scores);
    sum = power_row(head, keys, row.scores, row.powers);
  }
  // The largest power is 2^30, so the quotient has at most 32 bits.
  const int64_t reciprocal = (int64_t{1} << 62) / sum;
  constexpr int kShift = 62 - kProbabilityBits;
  for (int64_t j = 0; j < keys; ++j) {
    const int64_t rounded = (row.powers[j] * reciprocal + (int64_t{1} << (kShift - 1))) >> kShift;
    row.p[j] = static_cast<int16_t>(std::min<int64_t>(rounded, (1 << kProbabilityBits) - 1));
  }
}

void forward(const AttentionHead& head, const AttentionRow& row, int64_t begin, int64_t end,
             int64_t* out, int64_t stride) noexcept {
  for (int64_t query = begin; query < end; ++query) {
    const int64_t keys = head.keys_of(query);
    if (keys > 0) probabilities(head, row, query, keys);
    for (int64_t c = 0; c < head.channels; ++c) {
      const int16_t* v = head.vt + c * head.keys;
      // P adds up to at most 2^8, so sums of 16-bit values stay below 2^23.
      int32_t sum = 0;
      for (int64_t j = 0; j < keys; ++j) sum += int32_t{row.p[j]} * v[j];
      out[query * stride + c] = sum;
    }
  }
}

// row.grad_scores of the first `keys` keys.
inline void gradient_of_scores(const AttentionHead& head, const AttentionRow& row,
                               const AttentionGradient& g, int64_t query, int64_t keys) {
  const int32_t* grad_out = g.grad_out + query * head.channels;
  std::fill_n(row.grad_p, keys, int64_t{0});
  for (int64_t c = 0; c < head.channels; ++c) {
    const int64_t factor = grad_out[c];
    const int16_t* v = head.vt + c * head.keys;
    for (int64_t j = 0; j < keys; ++j) row.grad_p[j] += factor * v[j];
  }
  int64_t row_term = 0;
  for (int64_t j = 0; j < keys; ++j) {
    row.grad_p[j] = shift_right_rne(row.grad_p[j], g.grad_p_shift);
    row_term += row.p[j] * row.grad_p[j];
  }
  for (int64_t j = 0; j < keys; ++j) {
    const int64_t centred = row.grad_p[j] * (1 << kProbabilityBits) - row_term;
    row.grad_scores[j] =
        static_cast<int32_t>(shift_right_rne(row.p[j] * centred * g.scale, g.shift));
  }
}

void backward(const AttentionHead& head, const AttentionRow& row, const AttentionGradient& g,
              int64_t begin, int64_t end) noexcept {
  for (int64_t query = begin; query < end; ++query) {
    const int64_t keys = head.keys_of(query);
    if (keys > 0) {
      probabilities(head, row, query, keys);
      gradient_of_scores(head, row, g, query, keys);
    }
    for (int64_t c = 0; c < head.channels; ++c) {
      const int16_t* k = head.kt + c * head.keys;
      int64_t* grad_k = g.grad_kt + c * head.keys;
      int64_t* grad_v = g.grad_vt + c * head.keys;
      const int64_t q = head.q[query * head.channels + c];
      const int64_t grad_out = g.grad_out[query * head.channels + c];
      int64_t sum = 0;
      for (int64_t j = 0; j < keys; ++j) {
        sum += int64_t{row.grad_scores[j]} * k[j];
        grad_k[j] += row.grad_scores[j] * q;
        grad_v[j] += row.p[j] * grad_out;
      }
      g.grad_q[query * g.stride + c] = sum;
    }
  }
}
