// Losses that compare vectors of length 1 in fp32: in double (ops/losses/unit_vectors.h).
#pragma once

#include "graph/op.h"
#include "ops/losses/unit_vectors.h"

namespace mantissa::ops::fp32 {

// Forward to backward: vectors of length 1, slopes of their products, 1 / the lengths.
struct VectorRoom {
  double *vectors, *slopes, *inverse;
  VectorRoom(std::byte* base, const Shape& shape)
      : vectors(reinterpret_cast<double*>(base)),
        slopes(vectors + shape.count()),
        inverse(slopes + shape[0] * shape[0]) {}
};

OpMemory vector_memory(const OpShapes& s, const PlanningContext&);

// Returns the loss of example i, and writes the slopes of its products.
using CompareVector = double (*)(const OpContext&, const VectorRoom&, int64_t i);

// Brings the vectors to length 1, compares each, and counts the losses times `to_q24`.
void compare_all(const OpContext& c, CompareVector compare, double to_q24);

// The product of two of the vectors of length 1.
double vector_product(const VectorRoom& room, int64_t channels, int64_t i, int64_t j);

// The gradient of the vectors as they came, from the slopes divided by a number.
void vector_gradients(const OpContext& c, double divisor);

}  // namespace mantissa::ops::fp32
