// Functions of one value, and products of a gradient with their slopes.
//
// Include inside an anonymous namespace of mantissa::kernels, after functions.h.

struct Sigmoid {
  static Floats value(Floats x) noexcept { return sigmoid(x); }
  static Floats slope(Floats x) noexcept {
    const Floats y = sigmoid(x);
    return y * (1 - y);
  }
};
struct Tanh {
  static Floats value(Floats x) noexcept { return tangent(x); }
  static Floats slope(Floats x) noexcept {
    const Floats y = tangent(x);
    return 1 - y * y;
  }
};
struct Gelu {
  static Floats probability(Floats x) noexcept {
    return (1 + error_function(x * 0.70710678F)) * 0.5F;
  }
  static Floats value(Floats x) noexcept { return x * probability(x); }
  static Floats slope(Floats x) noexcept {
    return fused(x * 0.39894228F, exponential(x * x * -0.5F), probability(x));
  }
};
struct Silu {
  static Floats value(Floats x) noexcept { return x * sigmoid(x); }
  static Floats slope(Floats x) noexcept {
    const Floats y = sigmoid(x);
    return fused(x * y, 1 - y, y);
  }
};

struct Elu {
  // e^x - 1 = 2 t / (1 - t) of t = tanh(x / 2), which keeps the digits of small x.
  static Floats value(Floats x) noexcept {
    const Floats t = tangent(least(x, all(0)) * 0.5F);
    return x > 0 ? x : 2 * t / (1 - t);
  }
  static Floats slope(Floats x) noexcept { return x > 0 ? all(1) : exponential(x); }
};
struct Softplus {
  static Floats value(Floats x) noexcept {
    return greatest(x, all(0)) + log_above_one(exponential(-absolute(x)));
  }
  static Floats slope(Floats x) noexcept { return sigmoid(x); }
};
// t = tanh(softplus(x)) as a quotient of n = e^-|x|, and 1 - t.
struct Mish {
  static Floats bent(Floats x, Floats& rest) noexcept {
    const Floats n = exponential(-absolute(x)), square = n * n;
    const Floats part = x < 0 ? fused(n, all(2), square) : fused(n, all(2), all(1));
    const Floats other = x < 0 ? all(2) : 2 * square;
    rest = other / (part + other);
    return part / (part + other);
  }
  static Floats value(Floats x) noexcept {
    Floats rest;
    return x * bent(x, rest);
  }
  static Floats slope(Floats x) noexcept {
    Floats rest;
    const Floats t = bent(x, rest);
    return fused(x * rest, (1 + t) * sigmoid(x), t);
  }
};

// Calls visit(Function()) for the function of that name.
template <typename Visit>
inline void with_function(FloatFunction name, const Visit& visit) noexcept {
  switch (name) {
    case FloatFunction::kSigmoid:
      return visit(Sigmoid());
    case FloatFunction::kTanh:
      return visit(Tanh());
    case FloatFunction::kGelu:
      return visit(Gelu());
    case FloatFunction::kSilu:
      return visit(Silu());
    case FloatFunction::kElu:
      return visit(Elu());
    case FloatFunction::kSoftplus:
      return visit(Softplus());
    case FloatFunction::kMish:
      return visit(Mish());
  }
}

void function(FloatFunction name, const float* x, float* y, int64_t count) noexcept {
  with_function(name, [&](auto of) {
    for_vectors(count, [&](int64_t i, int64_t n) { store(y + i, of.value(load(x + i, n, 0)), n); });
  });
}

void function_backward(FloatFunction name, const float* x, const float* dy, float* dx,
                       int64_t count) noexcept {
  with_function(name, [&](auto of) {
    for_vectors(count, [&](int64_t i, int64_t n) {
      store(dx + i, load(dy + i, n, 0) * of.slope(load(x + i, n, 0)), n);
    });
  });
}
