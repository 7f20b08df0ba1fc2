// Steps of rnn and GRU for one instruction set. Include after cell_loops.h.

inline int64_t rnn_forward(const CellStep& a) noexcept {
  if (!are_plain(a, a.channels)) return kRecurrentReference.rnn.forward(a);
  for_blocks(a.channels, [&](int64_t at, int64_t count) {
    WideCellRow sums;
    CellRow h;
    sums_of(a, at, count, sums);
    narrow_sums(sums, count, h);
    look_up(tanh_table(), count, h);
    narrow_row(h, count, a.h + at);
  });
  return 0;
}

inline void rnn_backward(const CellGradient& a) noexcept {
  for (int64_t j = 0; j < a.channels; ++j) {
    a.grad_x[j] = short_times_q30(a.grad_h[j], short_tanh_slope(a.h[j]));
  }
  std::fill_n(a.carry_h, a.channels, 0);
}

inline int64_t gru_forward(const CellStep& a) noexcept {
  const int64_t n = a.channels;
  if (!are_plain(a, 3 * n)) return kRecurrentReference.gru.forward(a);
  for_blocks(n, [&](int64_t at, int64_t count) {
    WideCellRow sums;
    CellRow reset, keep, recurrent, candidate;
    sums_of(a, at, count, sums);
    narrow_sums(sums, count, reset);
    look_up(sigmoid_table(), count, reset);
    sums_of(a, n + at, count, sums);
    narrow_sums(sums, count, keep);
    look_up(sigmoid_table(), count, keep);
    std::copy_n(a.bias + at, count, sums);
    add_recurrent_part(a, 2 * n + at, count, sums);
    narrow_sums(sums, count, recurrent);
    input_part(a, 2 * n + at, count, sums);
    for (int64_t l = 0; l < count; ++l) {
      sums[l] += round_even(wide_product(reset[l], recurrent[l]),
                            kGateFraction + kPreFraction - kSumFraction);
    }
    narrow_sums(sums, count, candidate);
    look_up(tanh_table(), count, candidate);
    const int16_t* const h_before = a.h_before + at;
    int16_t* const h = a.h + at;
    for (int64_t l = 0; l < count; ++l) {
      const int64_t change = wide_product(static_cast<int32_t>(kGateOne) - keep[l], candidate[l]);
      h[l] = static_cast<int16_t>(
          round_even(change + wide_product(keep[l], h_before[l]), kGateFraction));
    }
    const CellRow* const record[] = {&reset, &keep, &candidate, &recurrent};
    for (int k = 0; k < 4; ++k) narrow_row(*record[k], count, a.record + k * n + at);
  });
  return 0;
}

inline void gru_backward(const CellGradient& a) noexcept {
  const int64_t n = a.channels;
  for_blocks(n, [&](int64_t at, int64_t count) {
    CellRow reset, keep, candidate, recurrent, of_r, of_z, of_n, gated;
    widen_row(a.record + at, count, reset);
    widen_row(a.record + n + at, count, keep);
    widen_row(a.record + 2 * n + at, count, candidate);
    widen_row(a.record + 3 * n + at, count, recurrent);
    const int32_t* const grad_h = a.grad_h + at;
    const int16_t* const h_before = a.h_before + at;
    int32_t* const carry_h = a.carry_h + at;
    for (int64_t l = 0; l < count; ++l) {
      const int32_t change = static_cast<int32_t>(kGateOne) - keep[l];
      of_n[l] = short_times_q30(grad_h[l],
                                short_slope(short_tanh_slope(candidate[l]), change, kGateFraction));
      of_z[l] = short_times_q30(grad_h[l], short_slope(short_sigmoid_slope(keep[l]),
                                                       h_before[l] - candidate[l], kGateFraction));
      gated[l] = short_times_gate(of_n[l], reset[l]);
      carry_h[l] = short_times_gate(grad_h[l], keep[l]);
    }
    // This slope may leave int32: sums reach 16.
    for (int64_t l = 0; l < count; ++l) {
      const int64_t slope =
          round_even(wide_product(short_sigmoid_slope(reset[l]), recurrent[l]), kPreFraction);
      of_r[l] =
          static_cast<int32_t>(clipped(round_even(int64_t{of_n[l]} * slope, 30), kGradientLimit));
    }
    const CellRow* const of_sums[] = {&of_r, &of_z, &gated};
    for (int k = 0; k < 3; ++k) {
      std::copy_n(*of_sums[k], count, a.grad_s + k * n + at);
      std::copy_n(k < 2 ? *of_sums[k] : of_n, count, a.grad_x + k * n + at);
    }
  });
}
