// LSTM's step for one instruction set. Include after cell_loops.h.

// Cells from gates, with the old ones in `cells` and then the new. Returns how many were clipped.
inline int64_t new_cells(const CellRow& i, const CellRow& f, const CellRow& g, int64_t count,
                         CellRow& cells) noexcept {
  int64_t clipped_cells = 0;
  for (int64_t l = 0; l < count; ++l) {
    const int32_t old_cell = cells[l] * (1 << (kGateFraction - kPreFraction));
    const int64_t wide =
        round_even(wide_product(f[l], old_cell) + wide_product(i[l], g[l]), 30 - kPreFraction);
    const int64_t cell = clipped(wide, INT16_MAX);
    clipped_cells += cell != wide;
    cells[l] = static_cast<int32_t>(cell);
  }
  return clipped_cells;
}

inline int64_t lstm_forward(const CellStep& a) noexcept {
  const int64_t n = a.channels;
  if (!are_plain(a, 4 * n)) return kRecurrentReference.lstm.forward(a);
  int64_t clipped_cells = 0;
  for_blocks(n, [&](int64_t at, int64_t count) {
    WideCellRow sums;
    CellRow i, f, g, o, cells;
    widen_row(a.before + 4 * n + at, count, cells);
    sums_of(a, at, count, sums);
    add_peephole(a, at, cells, count, sums);
    narrow_sums(sums, count, i);
    sums_of(a, n + at, count, sums);
    add_peephole(a, n + at, cells, count, sums);
    narrow_sums(sums, count, f);
    sums_of(a, 2 * n + at, count, sums);
    narrow_sums(sums, count, g);
    look_up(sigmoid_table(), count, i);
    look_up(sigmoid_table(), count, f);
    look_up(tanh_table(), count, g);
    clipped_cells += new_cells(i, f, g, count, cells);
    sums_of(a, 3 * n + at, count, sums);
    add_peephole(a, 2 * n + at, cells, count, sums);
    narrow_sums(sums, count, o);
    look_up(sigmoid_table(), count, o);
    const CellRow* const record[] = {&i, &f, &g, &o, &cells};
    for (int k = 0; k < 5; ++k) narrow_row(*record[k], count, a.record + k * n + at);
    look_up(tanh_table(), count, cells);
    int16_t* const h = a.h + at;
    for (int64_t l = 0; l < count; ++l) {
      h[l] = static_cast<int16_t>(short_times_gate(o[l], cells[l]));
    }
  });
  return clipped_cells;
}

inline void add_peephole_gradient(const CellGradient& a, int64_t at, const CellRow& of_sums,
                                  int64_t count, WideCellRow& to) noexcept {
  if (a.peepholes.weights == nullptr) return;
  const PlainShift shifted(a.peepholes.gradient_shift);
  const int16_t* const weights = a.peepholes.weights + at;
  for (int64_t l = 0; l < count; ++l) to[l] += shifted(int64_t{weights[l]} * of_sums[l]);
}

inline void lstm_backward(const CellGradient& a) noexcept {
  const int64_t n = a.channels;
  if (a.peepholes.weights != nullptr &&
      !is_plain_shift(a.peepholes.gradient_shift, kPeepholeGradientBits)) {
    return kRecurrentReference.lstm.backward(a);
  }
  for_blocks(n, [&](int64_t at, int64_t count) {
    CellRow i, f, g, o, old_cell, bent, of_i, of_f, of_g, of_o, of_cell;
    WideCellRow wide;
    widen_row(a.record + at, count, i);
    widen_row(a.record + n + at, count, f);
    widen_row(a.record + 2 * n + at, count, g);
    widen_row(a.record + 3 * n + at, count, o);
    widen_row(a.record + 4 * n + at, count, bent);
    widen_row(a.before + 4 * n + at, count, old_cell);
    look_up(tanh_table(), count, bent);
    const int32_t* const grad_h = a.grad_h + at;
    int32_t* const carry_c = a.carry_c + at;
    for (int64_t l = 0; l < count; ++l) {
      const int32_t of_bent = short_slope(short_tanh_slope(bent[l]), o[l], kGateFraction);
      of_o[l] = short_times_q30(grad_h[l],
                                short_slope(short_sigmoid_slope(o[l]), bent[l], kGateFraction));
      wide[l] = int64_t{carry_c[l]} + short_times_q30(grad_h[l], of_bent);
    }
    add_peephole_gradient(a, 2 * n + at, of_o, count, wide);
    for (int64_t l = 0; l < count; ++l) {
      of_cell[l] = static_cast<int32_t>(clipped(wide[l], kGradientLimit));
      of_i[l] =
          short_times_q30(of_cell[l], short_slope(short_sigmoid_slope(i[l]), g[l], kGateFraction));
      of_g[l] =
          short_times_q30(of_cell[l], short_slope(short_tanh_slope(g[l]), i[l], kGateFraction));
      wide[l] = short_times_gate(of_cell[l], f[l]);
    }
    // This slope may leave int32: cells reach 16.
    for (int64_t l = 0; l < count; ++l) {
      const int64_t slope =
          round_even(wide_product(short_sigmoid_slope(f[l]), old_cell[l]), kPreFraction);
      of_f[l] = static_cast<int32_t>(
          clipped(round_even(int64_t{of_cell[l]} * slope, 30), kGradientLimit));
    }
    add_peephole_gradient(a, at, of_i, count, wide);
    add_peephole_gradient(a, n + at, of_f, count, wide);
    for (int64_t l = 0; l < count; ++l) {
      carry_c[l] = static_cast<int32_t>(clipped(wide[l], kGradientLimit));
      a.carry_h[at + l] = 0;
    }
    const CellRow* const gradients[] = {&of_i, &of_f, &of_g, &of_o};
    for (int k = 0; k < 4; ++k) std::copy_n(*gradients[k], count, a.grad_x + k * n + at);
  });
}
