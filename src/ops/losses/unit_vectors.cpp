// u is in Q30, products of two u are exact sums, rounded once. Lengths are real numbers of 53 bits,
// by integer instructions, once for each example.
#include "ops/losses/unit_vectors.h"

#include <algorithm>
#include <array>
#include <string>

#include "ops/losses/loss_rows.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kMostVectorChannels = 4096;

// Backward: the gradients of the vectors before their lengths count, and factors.
struct VectorWork {
  int64_t *directions, *factors;
  int64_t bytes;
  VectorWork(std::byte* base, const Shape& shape)
      : directions(reinterpret_cast<int64_t*>(base)),
        factors(directions + shape.count()),
        bytes((shape.count() + shape[0]) * int64_t{sizeof(int64_t)}) {}
};

// A vector of length 1, and 1 / its length in units of its mantissas.
void normalise_vector(const OpContext& c, const UnitVectors& room, int64_t i) {
  const int64_t channels = c.inputs[0].shape.last();
  const int32_t* const in = c.inputs[0].as<int32_t>() + i * channels;
  int32_t* const out = room.vectors + i * channels;
  __int128 squares = 0;
  for (int64_t k = 0; k < channels; ++k) squares += int64_t{in[k]} * in[k];
  if (squares == 0) {
    std::fill_n(out, channels, 0);
    room.inverse[i] = 0;
    return;
  }
  const Real inverse = Real(1) / sqrt(Real(squares));
  const int shift = fixed_point_shift(inverse, 31);
  const int64_t multiplier = to_fixed_point(inverse, shift, INT32_MAX);
  for (int64_t k = 0; k < channels; ++k) {
    out[k] = static_cast<int32_t>(
        saturate(shift_right_rne(in[k] * multiplier, std::min(shift - 30, 62)), kUnitQ30));
  }
  room.inverse[i] = inverse.to_double();
}

// The gradient of a vector of length 1, less its part along the vector: in Q30, below 2^44.
void find_direction(const OpContext& c, const UnitVectors& room, const VectorWork& work,
                    int64_t i) {
  const int64_t n = c.inputs[0].shape[0], channels = c.inputs[0].shape.last();
  const int32_t* const own = room.vectors + i * channels;
  int64_t* const out = work.directions + i * channels;
  __int128 along = 0;
  for (int64_t k = 0; k < channels; ++k) {
    __int128 sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t slope = int64_t{room.slopes[i * n + j]} + room.slopes[j * n + i];
      sum += slope * room.vectors[j * channels + k];
    }
    out[k] = divide_rne(sum, kUnitQ30);
    along += static_cast<__int128>(out[k]) * own[k];
  }
  const int64_t part = divide_rne(along, kUnitQ30);
  for (int64_t k = 0; k < channels; ++k) out[k] -= ref_times_rne(part, own[k], 30);
}

// 1 / (divisor * length) of each example as whole numbers of 2^-shift; returns the shift.
int find_factors(const OpContext& c, const UnitVectors& room, const VectorWork& work,
                 const Real& divisor) {
  const int64_t n = c.inputs[0].shape[0];
  const auto factor = [&](int64_t i) {
    return ldexp(Real(room.inverse[i]), -c.inputs[0].row_exponent(i)) / divisor;
  };
  Real peak;
  for (int64_t i = 0; i < n; ++i) peak = peak < factor(i) ? factor(i) : peak;
  const int shift = fixed_point_shift(peak, 31);
  for (int64_t i = 0; i < n; ++i) work.factors[i] = to_fixed_point(factor(i), shift, INT32_MAX);
  return shift;
}

// The directions times their factors, for ByNumbers.
class VectorGradients {
 public:
  VectorGradients(const OpContext& c, int64_t)
      : labels_(c.inputs[1].as<int32_t>()),
        work_(c.memory.workspace, c.inputs[0].shape),
        channels_(c.inputs[0].shape.last()) {}
  kernels::RowWeights row_weights() const { return {nullptr, labels_}; }
  kernels::LossSums lost(int64_t) const { return {}; }
  void prepare(int64_t) {}
  int64_t gradient(int64_t row, int64_t k) const {
    return ref_times_rne(work_.directions[row * channels_ + k], work_.factors[row], 31);
  }

 private:
  const int32_t* labels_;
  VectorWork work_;
  int64_t channels_;
};

}  // namespace

int64_t product_q30(const int32_t* a, const int32_t* b, int64_t channels) {
  int64_t sum = 0;  // of vectors of length 1: at most 2^60
  for (int64_t k = 0; k < channels; ++k) sum += int64_t{a[k]} * b[k];
  return saturate(shift_right_rne(sum, 30), kUnitQ30);
}

Result<std::vector<ValueType>> infer_vectors(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 2 || inputs[0].rank != 1 || inputs[1].rank != 0) {
    return invalid_input("wants vectors [channels], and a label for each example");
  }
  if (inputs[0][0] < 2 || inputs[0][0] > kMostVectorChannels) {
    return invalid_input("wants vectors of 2 to " + std::to_string(kMostVectorChannels) +
                         " channels");
  }
  return std::vector<ValueType>{{Shape{}, Element::kReal}};
}

OpMemory vectors_memory(const OpShapes& s, const PlanningContext&) {
  const int64_t bytes = UnitVectors(nullptr, s.inputs[0]).bytes;
  return {.saved_bytes = bytes,
          .forward = {.workspace_bytes = bytes},
          .grad_input = {.workspace_bytes = VectorWork(nullptr, s.inputs[0]).bytes}};
}

Status check_vectors(const OpShapes& s) {
  if (s.inputs[0][0] <= kMostVectors) return {};
  return invalid_input("compares at most " + std::to_string(kMostVectors) +
                       " examples, and a micro-batch has " + std::to_string(s.inputs[0][0]));
}

void vectors_forward(const OpContext& c, CompareVectors compare) {
  const UnitVectors room(left_memory(c), c.inputs[0].shape);
  const int64_t n = c.inputs[0].shape[0];
  kernels::parallel_ranges(*c.kernel.pool, n, 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) normalise_vector(c, room, i);
  });
  std::array<LossTotals, kernels::kMaximumParts> partial = {};
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, n, 1, [&](int64_t begin, int64_t end, int64_t part) {
        for (int64_t i = begin; i < end; ++i) compare(c, room, i, part, partial[part]);
      });
  for (int64_t part = 0; part < parts; ++part) *c.step.loss += partial[part];
  count_rows({nullptr, c.inputs[1].as<int32_t>()}, n, *c.step.loss);
}

void vectors_backward(const OpContext& c, const Real& divisor) {
  const UnitVectors room(left_memory(c), c.inputs[0].shape);
  const VectorWork work(c.memory.workspace, c.inputs[0].shape);
  const int64_t n = c.inputs[0].shape[0];
  kernels::parallel_ranges(*c.kernel.pool, n, 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) find_direction(c, room, work, i);
  });
  const int wide_exponent = 31 - 30 - find_factors(c, room, work, divisor);
  const Tensor& grad = c.grad_inputs[0];
  narrow_gradient(c, grad, wide_exponent, [&](int shift, const kernels::PassCounts& counts) {
    return kernels::parallel_statistics(
        *c.kernel.pool, n, kLossRowsPerThread, [&](int64_t begin, int64_t end, int64_t part) {
          return ByNumbers<VectorGradients>::gradient(c, shift, gradient_of(grad), begin, end,
                                                counts.wide_of(part));
        });
  });
}

}  // namespace mantissa::ops
