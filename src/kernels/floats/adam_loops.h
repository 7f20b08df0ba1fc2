// Updates by Adam.
//
// Include inside an anonymous namespace of mantissa::kernels, after vectors.h and root(Floats).

void adam(const FloatAdam& a, int64_t begin, int64_t end) noexcept {
  const float decay_inside = a.decoupled ? 0 : a.decay, decay_outside = a.decoupled ? a.decay : 0;
  const float first_part = 1 / a.first_part, root_part = 1 / a.root_part;
  for_vectors(end - begin, [&](int64_t at, int64_t n) {
    const int64_t i = begin + at;
    const Floats weights = load(a.weights + i, n, 0);
    const Floats gradient = load(a.gradient + i, n, 0) * a.scale + weights * decay_inside;
    const Floats first = load(a.first + i, n, 0) * a.beta1 + gradient * (1 - a.beta1);
    const Floats old = load(a.root + i, n, 0);
    const Floats size = root(old * old * a.beta2 + gradient * gradient * (1 - a.beta2));
    const Floats divisor = size * root_part + a.epsilon;
    const Floats direction = divisor > 0 ? first * first_part / divisor : Floats{};
    store(a.first + i, first, n);
    store(a.root + i, size, n);
    store(a.weights + i, weights - (direction + weights * decay_outside) * a.rate, n);
  });
}
