// Steps of recurrent layers.
//
// Include inside an anonymous namespace of mantissa::kernels, after functions.h.

// Calls visit(load_at, store_at) for the vectors of channels [begin, end): load_at(rows, gate) and
// store_at(rows, gate, floats) are of rows [gates, n].
template <typename Visit>
inline void for_channels(int64_t n, int64_t begin, int64_t end, const Visit& visit) noexcept {
  for_vectors(end - begin, [&](int64_t i, int64_t count) {
    visit([=](const float* rows, int gate) { return load(rows + gate * n + begin + i, count, 0); },
          [=](float* rows, int gate, Floats floats) {
            store(rows + gate * n + begin + i, floats, count);
          });
  });
}

struct RnnStep {
  static void forward(const FloatCell& a, int64_t begin, int64_t end) noexcept {
    for_channels(a.n, begin, end,
                 [&](auto at, auto put) { put(a.h, 0, tangent(at(a.x, 0) + at(a.s, 0))); });
  }
  static void backward(const FloatCell& a, const FloatCellGradient& d, int64_t begin,
                       int64_t end) noexcept {
    for_channels(a.n, begin, end, [&](auto at, auto put) {
      const Floats h = at(a.h, 0), gradient = at(d.dh, 0) * (1 - h * h);
      put(d.dx, 0, gradient);
      put(d.ds, 0, gradient);
      put(d.carry_h, 0, Floats{});
    });
  }
};

struct LstmStep {
  // A peephole's part of a gate.
  static Floats peephole(const FloatCell& a, auto at, int gate, Floats cell) noexcept {
    return a.parameters == nullptr ? Floats{} : at(a.parameters, gate) * cell;
  }
  static void forward(const FloatCell& a, int64_t begin, int64_t end) noexcept {
    for_channels(a.n, begin, end, [&](auto at, auto put) {
      const auto sum = [&](int gate) { return at(a.x, gate) + at(a.s, gate); };
      const Floats old_cell = at(a.before, 4);
      const Floats i = sigmoid(sum(0) + peephole(a, at, 0, old_cell));
      const Floats f = sigmoid(sum(1) + peephole(a, at, 1, old_cell));
      const Floats g = tangent(sum(2)), cell = f * old_cell + i * g;
      const Floats o = sigmoid(sum(3) + peephole(a, at, 2, cell));
      const Floats record[] = {i, f, g, o, cell};
      for (int k = 0; k < 5; ++k) put(a.record, k, record[k]);
      put(a.h, 0, o * tangent(cell));
    });
  }
  static void backward(const FloatCell& a, const FloatCellGradient& d, int64_t begin,
                       int64_t end) noexcept {
    for_channels(a.n, begin, end, [&](auto at, auto put) {
      const Floats i = at(a.record, 0), f = at(a.record, 1), g = at(a.record, 2),
                   o = at(a.record, 3), bent = tangent(at(a.record, 4)), old_cell = at(a.before, 4),
                   dh = at(d.dh, 0);
      const Floats of_o = dh * bent * o * (1 - o);
      const Floats of_cell =
          at(d.carry_c, 0) + dh * o * (1 - bent * bent) + peephole(a, at, 2, of_o);
      const Floats of_i = of_cell * g * i * (1 - i), of_f = of_cell * old_cell * f * (1 - f);
      const Floats gradients[] = {of_i, of_f, of_cell * i * (1 - g * g), of_o};
      for (int k = 0; k < 4; ++k) {
        put(d.dx, k, gradients[k]);
        put(d.ds, k, gradients[k]);
      }
      put(d.carry_c, 0, of_cell * f + peephole(a, at, 0, of_i) + peephole(a, at, 1, of_f));
      put(d.carry_h, 0, Floats{});
    });
  }
};

struct GruStep {
  static void forward(const FloatCell& a, int64_t begin, int64_t end) noexcept {
    for_channels(a.n, begin, end, [&](auto at, auto put) {
      const Floats reset = sigmoid(at(a.x, 0) + at(a.s, 0)),
                   keep = sigmoid(at(a.x, 1) + at(a.s, 1)),
                   recurrent = at(a.s, 2) + at(a.parameters, 0);
      const Floats candidate = tangent(at(a.x, 2) + reset * recurrent);
      const Floats record[] = {reset, keep, candidate, recurrent};
      for (int k = 0; k < 4; ++k) put(a.record, k, record[k]);
      put(a.h, 0, (1 - keep) * candidate + keep * at(a.h_before, 0));
    });
  }
  static void backward(const FloatCell& a, const FloatCellGradient& d, int64_t begin,
                       int64_t end) noexcept {
    for_channels(a.n, begin, end, [&](auto at, auto put) {
      const Floats reset = at(a.record, 0), keep = at(a.record, 1), candidate = at(a.record, 2),
                   recurrent = at(a.record, 3), dh = at(d.dh, 0);
      const Floats of_n = dh * (1 - keep) * (1 - candidate * candidate);
      const Floats of_reset = of_n * recurrent * reset * (1 - reset);
      const Floats of_keep = dh * (at(a.h_before, 0) - candidate) * keep * (1 - keep);
      const Floats of_x[] = {of_reset, of_keep, of_n};
      const Floats of_s[] = {of_reset, of_keep, of_n * reset};
      for (int k = 0; k < 3; ++k) {
        put(d.dx, k, of_x[k]);
        put(d.ds, k, of_s[k]);
      }
      put(d.carry_h, 0, dh * keep);
    });
  }
};
