// The angles of positions: pair i of n turns by base^(-i/n) with each position, in radians. Their
// cosines and sines are integers in Q30, and the same on every machine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/op.h"
#include "ops/attributes.h"

namespace mantissa::ops {

constexpr int kCircleBits = 30;  // fraction of cosines and sines
constexpr int64_t kMostPositions = int64_t{1} << 16;
constexpr double kLeastBase = 1, kMostBase = 1e9;
// Factors that divide angles are whole numbers of 2^-23, the last bit of a float32 from 1 on.
constexpr int kFactorBits = 23;
constexpr int64_t kFactorUnit = int64_t{1} << kFactorBits, kMostFactor = kFactorUnit << 20;

// The angle of one position, for each pair, in units of 2^-64 of a turn. Its relative error is
// below 2^-50, so up to position 65535 angles are wrong by less than 2^-33. `base` and the factors
// are in the ranges above; there are none, one for all pairs, or one for each.
using Angles = std::vector<uint64_t>;
Angles angles_of_pairs(int64_t pairs, double base, std::span<const int64_t> factors = {});

// The channels of pair i of `pairs`: neighbours, or one of each half.
struct PairPlaces {
  int64_t step, distance;
  PairPlaces(bool interleaved, int64_t pairs)
      : step(interleaved ? 2 : 1), distance(interleaved ? 1 : pairs) {}
  int64_t first(int64_t i) const { return i * step; }
  int64_t second(int64_t i) const { return i * step + distance; }
};

// Cosines and sines of the positions of an instruction, [positions, pairs] each.
struct CircleTable {
  const int32_t *cosines, *sines;
};

inline int64_t circle_table_bytes(int64_t positions, int64_t pairs) {
  return 2 * positions * pairs * int64_t{sizeof(int32_t)};
}

// The decisions of an instruction for pairs with these angles. Networks turn the queries and keys of
// all layers alike, so instructions share a table of the positions from 0 on, if it is small.
Prepared prepare_circle_table(Angles angles, int64_t positions);

// The shared table; or, if it is too large or the step's first position is not 0, one in the
// context's workspace, which has circle_table_bytes. The context's `prepared` are for the same
// positions.
CircleTable make_circle_table(const OpContext& context, int64_t positions);

inline OpMemory sinusoidal_memory(const OpShapes& s, const PlanningContext&) {
  const int64_t positions = s.output[s.output.rank - 2];
  return {.forward = {.workspace_bytes = circle_table_bytes(positions, s.output.last() / 2)}};
}

inline Prepared prepare_sinusoidal(const OpContext& c) {
  const Shape& shape = c.output().shape;
  return prepare_circle_table(
      angles_of_pairs(shape.last() / 2, c.attributes<SinusoidalAttributes>().base),
      shape[shape.rank - 2]);
}

}  // namespace mantissa::ops
