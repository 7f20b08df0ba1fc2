// Gradients of weights that updates may compute a few rows at a time, so that they need no memory
// as a whole. Changes no bit (docs/decisions/0032-gradients-by-rows.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/programs/program.h"
#include "plan/retention/machine_profile.h"

namespace mantissa {

// Bytes of a gradient from which on it matters: smaller ones stay in caches.
constexpr int64_t kLeastGradientBytes = int64_t{1} << 20;

struct RowChoice {
  int parameter = -1;
  std::string name;
  int64_t bytes = 0;       // of the whole gradient
  int64_t tier_bytes = 0;  // size of the cache that it lies in; INT64_MAX: memory
  double keep_ns = 0;      // estimated: writing it there and loading it, over doing so nearby
  double compute_ns = 0;   // estimated: computing it more than once
};

// The parameters whose updates may do that: their gradients have at least `least_bytes`, and need
// at most half as much memory when computed by rows. The one that saves most time, or costs least,
// is first. `least_bytes` 0: all possible ones.
std::vector<RowChoice> row_choices(const Graph& graph, const ProgramOptions& options,
                                   const PlanningContext& planning, const MachineProfile& profile,
                                   int64_t least_bytes = kLeastGradientBytes);

// ProgramOptions::by_rows of the first `count` choices.
std::vector<bool> by_rows(const Graph& graph, const std::vector<RowChoice>& choices, size_t count);

}  // namespace mantissa
