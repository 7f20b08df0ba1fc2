// The memory that a run will need, known before step 0, and the memory that it took.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/memory_limit.h"

namespace mantissa {

struct MemoryItem {
  std::string name;
  int64_t bytes = 0;
};

// Bookkeeping of a run: measured, not planned.
constexpr int64_t kOverheadBytesPerThread = int64_t{64} << 10;
constexpr int64_t kOverheadBytesPerInstruction = int64_t{7} << 10;

// Everything a run holds at its peak, above the idle process.
struct MemoryPlan {
  std::vector<MemoryItem> items;      // they add up to the peak
  std::vector<MemoryItem> arena;      // by kind: buffers alive at the arena's fullest moment
  std::vector<MemoryItem> consumers;  // the largest single buffers of the arena
  std::string advice;                 // how it could become smaller
  int64_t peak_bytes() const;
};

// An error (kOverBudget) with need, limit and the largest consumers, if the peak is over the budget
// (> 0).
Status check_budget(const MemoryPlan& plan, int64_t budget_bytes);

// A warning if the peak, with the memory that the process holds already, exceeds the system's
// limit; else "".
std::string limit_warning(const MemoryPlan& plan, int64_t held_bytes, const MemoryLimit& limit);

// A table: items, the arena's contents, the peak.
std::string to_string(const MemoryPlan& plan);

// Resident memory of this process now, and the most since it started (0 if unknown).
int64_t resident_bytes();
int64_t peak_resident_bytes();
// Starts measuring the peak from now on, if the system can.
void reset_peak_resident();
// Gives memory that was freed back to the system, if the C library can: small pieces of it stay
// resident else.
void release_free_memory();

}  // namespace mantissa
