// Products of matrices.
//
// Include inside an anonymous namespace of mantissa::kernels, after vectors.h.

// Rows whose sums are in registers at once, beside two vectors of columns.
constexpr int kTileRows = 6;

// sums[r][v] over the depth, for kRows rows and kVectors vectors of columns, which begin at `b`.
template <int kRows, int kVectors>
inline void product_tile(const FloatProduct& p, const float* a, const float* b, float* c,
                         int64_t columns) noexcept {
  Floats sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < p.depth; ++k) {
    Floats row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + k * kPanel + v * kFloats);
    for (int r = 0; r < kRows; ++r) {
      const Floats factor = all(a[r * p.a_row + k * p.a_depth]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = fused(factor, row[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c + r * p.c_row + v * kFloats;
      const int64_t count = std::min(kFloats, columns - v * kFloats);
      if (count <= 0) continue;
      store(to, p.adds ? load(to, count, 0) + sums[r][v] : sums[r][v], count);
    }
  }
}

// All rows of one or two vectors of columns.
template <int kRows, int kVectors>
inline void product_strip(const FloatProduct& p, int64_t row, const float* b, float* c,
                          int64_t columns) noexcept {
  for (; row + kRows <= p.rows; row += kRows) {
    product_tile<kRows, kVectors>(p, p.a + row * p.a_row, b, c + row * p.c_row, columns);
  }
  if constexpr (kRows > 1) product_strip<kRows - 1, kVectors>(p, row, b, c, columns);
}

void product(const FloatProduct& p) noexcept {
  for (int64_t column = 0; column < p.columns; column += 2 * kFloats) {
    const float* b = p.b + column / kPanel * kPanel * p.panel_depth + column % kPanel;
    const int64_t left = p.columns - column;
    if (left > kFloats) {
      product_strip<kTileRows, 2>(p, 0, b, p.c + column, left);
    } else {
      product_strip<kTileRows, 1>(p, 0, b, p.c + column, left);
    }
  }
}

void pack(const float* rows, int64_t stride, int64_t depth, int64_t columns,
          float* panels) noexcept {
  for (int64_t first = 0; first < columns; first += kPanel) {
    const int64_t count = std::min(kPanel, columns - first);
    for (int64_t k = 0; k < depth; ++k, panels += kPanel) {
      std::fill(std::copy_n(rows + k * stride + first, count, panels), panels + kPanel, 0.0F);
    }
  }
}

void pack_columns(const float* rows, int64_t stride, int64_t depth, int64_t columns,
                  float* panels) noexcept {
  for (int64_t first = 0; first < columns; first += kPanel) {
    const int64_t count = std::min(kPanel, columns - first);
    for (int64_t k = 0; k < depth; ++k, panels += kPanel) {
      const float* from = rows + first * stride + k;
      for (int64_t i = 0; i < count; ++i) panels[i] = from[i * stride];
      std::fill(panels + count, panels + kPanel, 0.0F);
    }
  }
}

// One output of kRows rows. Each sum is kept in several vectors, so that one product need not wait
// for the one before it.
template <int kRows>
inline void output_of_rows(const FloatFewRows& p, int64_t output) noexcept {
  constexpr int kParts = kRows == 1 ? 4 : 2;
  const float* const weights = p.weights + output * p.depth;
  Floats sums[kRows][kParts] = {};
  int64_t k = 0;
  for (; k + kParts * kFloats <= p.depth; k += kParts * kFloats) {
    for (int part = 0; part < kParts; ++part) {
      const Floats factors = load(weights + k + part * kFloats);
      for (int r = 0; r < kRows; ++r) {
        const Floats x = load(p.x + r * p.depth + k + part * kFloats);
        sums[r][part] = fused(x, factors, sums[r][part]);
      }
    }
  }
  for (; k < p.depth; k += kFloats) {
    const int64_t count = std::min(kFloats, p.depth - k);
    const Floats factors = load(weights + k, count, 0);
    for (int r = 0; r < kRows; ++r) {
      sums[r][0] = fused(load(p.x + r * p.depth + k, count, 0), factors, sums[r][0]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int part = 1; part < kParts; ++part) sums[r][0] = sums[r][0] + sums[r][part];
    const float sum = lane_sum(sums[r][0]);
    p.y[r * p.outputs + output] = p.bias == nullptr ? sum : sum + p.bias[output];
  }
}

template <int kRows>
inline void outputs_of_rows(const FloatFewRows& p, int64_t begin, int64_t end) noexcept {
  for (int64_t output = begin; output < end; ++output) output_of_rows<kRows>(p, output);
}

void few_rows(const FloatFewRows& p, int64_t begin, int64_t end) noexcept {
  static_assert(kMostFewRows == 4);
  switch (p.rows) {
    case 1: return outputs_of_rows<1>(p, begin, end);
    case 2: return outputs_of_rows<2>(p, begin, end);
    case 3: return outputs_of_rows<3>(p, begin, end);
    default: return outputs_of_rows<4>(p, begin, end);
  }
}
