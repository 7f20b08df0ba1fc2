// Instruction sets that kernels are written for, and which of them this CPU has.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace mantissa {

// Ordered: a CPU that has one has all before it.
enum class Isa { kScalar, kAvx2, kAvx512Vnni };

// "scalar", "avx2", "avx512vnni".
std::string_view isa_name(Isa isa);

// The best instruction set that this CPU (and its operating system) supports, by cpuid, read once.
Isa best_isa();

// Parses a name of isa_name, or "auto" for the best. An unknown name, or an instruction set that
// this CPU lacks, is an error that names the choices.
Result<Isa> parse_isa(std::string_view name);

// The CPU's own name ("Intel(R) Xeon(R) Processor"), or "unknown".
std::string cpu_model_name();

}  // namespace mantissa
