// Rows that are brought to mean 0 and deviation 1.
//
// Include inside an anonymous namespace of mantissa::kernels, after vectors.h and <cmath>.

FloatNorm row_norm(const float* x, int64_t channels, bool centred, double epsilon) noexcept {
  FloatNorm norm;
  if (centred) {
    Floats sum = {};
    for_vectors(channels, [&](int64_t i, int64_t n) { sum += load(x + i, n, 0); });
    norm.mean = lane_sum(sum) / static_cast<float>(channels);
  }
  Floats squares = {};
  for_vectors(channels, [&](int64_t i, int64_t n) {
    const Floats difference = load(x + i, n, norm.mean) - norm.mean;
    squares = fused(difference, difference, squares);
  });
  const double variance = double{lane_sum(squares)} / static_cast<double>(channels);
  norm.inverse = static_cast<float>(1 / std::sqrt(variance + epsilon));
  return norm;
}

void normalise(const float* x, const FloatNorm& norm, const float* scale, const float* offset,
               int64_t channels, float* y) noexcept {
  for_vectors(channels, [&](int64_t i, int64_t n) {
    const Floats normalised = (load(x + i, n, 0) - norm.mean) * norm.inverse;
    const Floats added = offset == nullptr ? Floats{} : load(offset + i, n, 0);
    store(y + i, fused(normalised, load(scale + i, n, 0), added), n);
  });
}

void norm_backward(const float* x, const float* dy, const FloatNorm& norm, const float* scale,
                   bool centred, int64_t channels, float* dx) noexcept {
  Floats sums = {}, sums_x = {};
  for_vectors(channels, [&](int64_t i, int64_t n) {
    const Floats d = load(dy + i, n, 0) * load(scale + i, n, 0);
    sums += d;
    sums_x = fused(d, (load(x + i, n, 0) - norm.mean) * norm.inverse, sums_x);
  });
  const float part = 1 / static_cast<float>(channels), mean_x = lane_sum(sums_x) * part;
  const float mean = centred ? lane_sum(sums) * part : 0;
  for_vectors(channels, [&](int64_t i, int64_t n) {
    const Floats d = load(dy + i, n, 0) * load(scale + i, n, 0);
    const Floats normalised = (load(x + i, n, 0) - norm.mean) * norm.inverse;
    store(dx + i, (d - mean - normalised * mean_x) * norm.inverse, n);
  });
}

void add_norm_gradients(const float* x, const float* dy, const FloatNorm& norm, int64_t channels,
                        float* of_scale, float* of_offset) noexcept {
  for_vectors(channels, [&](int64_t i, int64_t n) {
    const Floats gradient = load(dy + i, n, 0);
    const Floats normalised = (load(x + i, n, 0) - norm.mean) * norm.inverse;
    if (of_scale != nullptr) {
      store(of_scale + i, fused(gradient, normalised, load(of_scale + i, n, 0)), n);
    }
    if (of_offset != nullptr) store(of_offset + i, load(of_offset + i, n, 0) + gradient, n);
  });
}
