// The rows of a benchmark: an instruction with the bytes that it moves, and sums of rows.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/op.h"
#include "measure/benchmark.h"
#include "plan/programs/program.h"

namespace mantissa {

// Everything of an instruction's row but its time.
BenchmarkRow describe_instruction(const Program& program, int instruction,
                                  const OpContext& context);

// Rows added up by phase and op, or by phase alone, slowest first.
std::vector<BenchmarkRow> sums(const std::vector<BenchmarkRow>& rows, bool by_op);

// All rows added up.
BenchmarkRow total(const std::vector<BenchmarkRow>& rows);

// The quantile q of `values`, interpolated; 0 if there are none.
double quantile(std::vector<int64_t> values, double q);

// The median of `ns`, in microseconds.
double median_us(std::vector<int64_t> ns);

}  // namespace mantissa
