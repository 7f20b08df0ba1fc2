// Instruction sets that kernels are written for, and which of them this CPU has.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mantissa {

// The later the better. AVX-VNNI is VNNI in 256 bits for CPUs without AVX-512; AMX is tiles of int8
// beside AVX-512 VNNI.
enum class Isa { kScalar, kAvx2, kAvxVnni, kAvx512Vnni, kAmx };

inline constexpr std::array kAllIsas = {Isa::kScalar, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512Vnni,
                                        Isa::kAmx};

// "scalar", "avx2", "avxvnni", "avx512vnni", "amx".
std::string_view isa_name(Isa isa);

// Whether this CPU and its operating system have it: not each that has one has all before it (the
// first with AVX-512 VNNI lack AVX-VNNI). The first call asks Linux for AMX's registers, which a
// process has to.
bool is_supported(Isa isa);

// The best that is supported.
Isa best_isa();

// Parses a name of isa_name, or "auto" for the best. An unknown name, or an instruction set that
// this CPU lacks, is an error that names the choices.
Result<Isa> parse_isa(std::string_view name);

// The CPU's own name ("Intel(R) Xeon(R) Processor"), or "unknown".
std::string cpu_model_name();

}  // namespace mantissa
