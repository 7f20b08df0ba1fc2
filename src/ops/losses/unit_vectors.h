// Losses that compare the vectors of a micro-batch, each brought to length 1, two by two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/op.h"
#include "numerics/real.h"

namespace mantissa::ops {

// Vectors that are compared at once.
inline constexpr int64_t kMostVectors = 8192;
inline constexpr int64_t kUnitQ30 = int64_t{1} << 30;

// How many other examples have the label of one that counts, and whether another is one of them.
struct Friends {
  const int32_t* labels;
  int64_t count;

  bool are(int64_t i, int64_t j) const {
    return i != j && labels[i] >= 0 && labels[i] == labels[j];
  }
  int64_t of(int64_t i) const {
    int64_t found = 0;
    for (int64_t j = 0; j < count; ++j) found += are(i, j);
    return found;
  }
  bool are_compared(int64_t i, int64_t j) const { return i != j && labels[j] >= 0; }
};

inline Friends friends_of(const OpContext& c) {
  return {c.inputs[1].as<int32_t>(), c.inputs[0].shape[0]};
}

// The product of two vectors of length 1 in Q30.
int64_t product_q30(const int32_t* a, const int32_t* b, int64_t channels);

// Forward to backward: the vectors of length 1 in Q30, the slopes of their products in Q30
// [n, n], from -1 to 1, and 1 / the lengths.
struct UnitVectors {
  int32_t *vectors, *slopes;
  double* inverse;
  int64_t bytes;
  UnitVectors(std::byte* base, const Shape& shape)
      : vectors(reinterpret_cast<int32_t*>(base)),
        slopes(vectors + shape.count()),
        inverse(reinterpret_cast<double*>(slopes + (shape[0] * shape[0] + shape.count()) % 2 +
                                          shape[0] * shape[0])),
        bytes(reinterpret_cast<std::byte*>(inverse + shape[0]) - base) {}
};

// Op::infer_outputs, and OpRows::memory and check, of such a loss.
Result<std::vector<ValueType>> infer_vectors(const Attributes&, std::span<const Shape> inputs);
OpMemory vectors_memory(const OpShapes& s, const PlanningContext&);
Status check_vectors(const OpShapes& s);

// Compares vector i with all others, on part `part` of the threads: adds the example's loss, and
// writes the slopes of its products, slopes[i * n ...].
using CompareVectors = void (*)(const OpContext&, const UnitVectors&, int64_t i, int64_t part,
                                LossTotals&);

// Brings the vectors to length 1, compares each of them, and counts them.
void vectors_forward(const OpContext& c, CompareVectors compare);

// The gradient of the vectors as they came, from the slopes divided by a positive number.
void vectors_backward(const OpContext& c, const Real& divisor);

}  // namespace mantissa::ops
