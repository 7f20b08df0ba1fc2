// Compares the hashes that two runs wrote (docs/run-folder.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace mantissa {

struct HashComparison {
  int64_t tensors = 0;         // hashed per step
  int64_t steps_compared = 0;  // steps that both runs have hashes of, up to the first difference
  int64_t last_same_step = -1;
  int64_t differing_step = -1;  // -1: none
  std::vector<std::string> differing_tensors;
  // Neither run lacks hashes that it should have: lines in between (a loss of power takes them), or
  // those that follow in the other. Only then runs without a difference are the same.
  bool complete = true;
  std::vector<std::string> notes;  // not compared: steps that one run does not have
};

// `a` and `b`: folders of runs, or their hashes.jsonl. Reads up to the first difference. Errors:
// no such file, a damaged line or a broken chain (with its line), runs with different settings or
// data (names the differences), no common step, a folder whose config.toml cannot be read. An
// unfinished last line is passed over.
Result<HashComparison> compare_hashes(const std::filesystem::path& a,
                                      const std::filesystem::path& b);

}  // namespace mantissa
