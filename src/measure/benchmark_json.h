// Benchmarks as JSON (docs/bench.md), and one beside another that was saved earlier.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "measure/benchmark.h"

namespace mantissa {

nlohmann::ordered_json to_json(const BenchmarkConfig& config, const Benchmark& benchmark);

// The file of a benchmark that the user names: a file, or bench.json in a folder.
std::string benchmark_file(const std::string& path);

// Reads a saved benchmark. Errors name the file: missing, no JSON, not a benchmark, incomplete,
// conditions in `machine` or `run` that are neither scalars nor a few numbers.
Result<nlohmann::json> read_benchmark(const std::string& file);

// Adds the measurements of `before` to `now`: "before_us" and "speedup" (before / now) for the step
// and for each row that both have, and "comparison" with the file's name, a warning for each
// condition that differs, and the rows that only one of them has.
void compare_benchmarks(const nlohmann::json& before, const std::string& file,
                        nlohmann::ordered_json& now);

}  // namespace mantissa
