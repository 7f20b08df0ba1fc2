// The inputs of a layer over examples, as rounding of its weights needs them: H, the sum of x x^T
// over all rows x, and the factor of it. In doubles; threads change no bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/system/thread_pool.h"

namespace mantissa::quantise {

// H + damping = R R^T, where R has nothing below its diagonal.
struct InputFactor {
  int64_t features = 0;
  std::vector<double> r;        // row by row
  std::vector<double> squares;  // of each input: the diagonal of H + damping
  double damping = 0;           // was added to the diagonal

  const double* row(int64_t i) const { return r.data() + i * features; }
};

class InputProducts {
 public:
  explicit InputProducts(int64_t features);

  // Rows of inputs, one after the other.
  void add(std::span<const float> rows, ThreadPool& pool);

  int64_t features() const { return features_; }
  // Row by row; only up to the diagonal.
  std::span<const double> sums() const { return sums_; }

  // The factor, in the memory of the sums. The damping is a hundredth of the diagonal's mean, as in
  // GPTQ; of inputs that are all zero, 1. An error: an input is not finite.
  Result<InputFactor> factor(ThreadPool& pool) &&;

  // Bytes while at most `rows` rows of `features` features are added at once.
  static int64_t predict_bytes(int64_t features, int64_t rows);

 private:
  int64_t features_;
  std::vector<double> sums_;
  std::vector<double> rows_;  // that are being added
};

}  // namespace mantissa::quantise
