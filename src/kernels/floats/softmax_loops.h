// Rows of logits.
//
// Include inside an anonymous namespace of mantissa::kernels, after functions.h and <cmath>.

// Elements whose sum is kept in float, before it is added in double.
constexpr int64_t kFloatTerms = 1024;

inline float largest_of(const float* x, int64_t count) noexcept {
  constexpr float kLowest = -__builtin_huge_valf();
  Floats largest = all(kLowest);
  for_vectors(count,
              [&](int64_t i, int64_t n) { largest = greatest(largest, load(x + i, n, kLowest)); });
  return lane_maximum(largest);
}

LogitSums logit_sums(const float* logits, int64_t classes) noexcept {
  LogitSums sums = {.largest = largest_of(logits, classes)};
  for (int64_t begin = 0; begin < classes; begin += kFloatTerms) {
    const float* x = logits + begin;
    Floats exponentials = {}, sum = {};
    for_vectors(std::min(kFloatTerms, classes - begin), [&](int64_t i, int64_t n) {
      exponentials += exponential(load(x + i, n, -__builtin_huge_valf()) - sums.largest);
      sum += load(x + i, n, 0);
    });
    sums.exponentials += lane_sum(exponentials);
    sums.sum += lane_sum(sum);
  }
  return sums;
}

void softmax_gradient(const float* logits, int64_t classes, const SoftmaxGradient& args,
                      float* gradient) noexcept {
  for_vectors(classes, [&](int64_t i, int64_t n) {
    const Floats power = exponential(load(logits + i, n, 0) - args.largest);
    store(gradient + i, (power * args.inverse - args.target) * args.weight, n);
  });
}

void softmax(float* x, int64_t count, float scale) noexcept {
  const float largest = largest_of(x, count);
  Floats sum = {};
  for_vectors(count, [&](int64_t i, int64_t n) {
    const Floats power = exponential((load(x + i, n, -__builtin_huge_valf()) - largest) * scale);
    store(x + i, power, n);
    sum += power;
  });
  const float inverse = 1 / lane_sum(sum);
  for_vectors(count, [&](int64_t i, int64_t n) { store(x + i, load(x + i, n, 0) * inverse, n); });
}

void softmax_backward(const float* p, float* dp, int64_t count, float scale) noexcept {
  Floats sums = {};
  for_vectors(count, [&](int64_t i, int64_t n) {
    sums = fused(load(p + i, n, 0), load(dp + i, n, 0), sums);
  });
  const float sum = lane_sum(sums);
  for_vectors(count, [&](int64_t i, int64_t n) {
    store(dp + i, load(p + i, n, 0) * (load(dp + i, n, 0) - sum) * scale, n);
  });
}
