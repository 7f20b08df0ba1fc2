// Makes the inference network of a trained one: chooses its fixed exponents on training examples
// (METHODS section 0).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "data/batches/ordered_batches.h"
#include "graph/graph.h"
#include "infer/frozen_network.h"
#include "infer/programs.h"
#include "plan/programs/program.h"
#include "runtime/state.h"

namespace mantissa {

// Part of values that may be clipped by a fixed exponent.
constexpr double kClippedPart = 1e-4;

// Freezes a trained network: runs the calibration program (inference mode) on the batches that have
// the program's size, and gives each tensor the smallest exponent e with
// #(|x| > (2^(bits-1) - 1/2) * 2^e) <= kClippedPart of the values seen. In fp32 nothing is run.
// The arena has at least freeze_bytes(calibration). With many guarded channels it may hold the
// counts of only some values. Then the program is run for these, then for the next. `frozen` has
// the graph freeze_graph(graph, its form) and a zero-filled state of its layout, which becomes the
// state of the frozen network.
Status freeze(const Graph& graph, State& state, const Program& calibration, const Machine& machine,
              OrderedBatches& batches, FrozenNetwork& frozen);

int64_t freeze_bytes(const Program& calibration);

// `count` of `all` training examples to freeze with: the first ones in the order of an epoch that
// training does not use.
std::vector<uint32_t> calibration_examples(int64_t all, uint64_t seed, int64_t count);

}  // namespace mantissa
