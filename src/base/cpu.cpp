#include "base/cpu.h"

#include <array>
#include <fstream>

namespace mantissa {
namespace {

constexpr std::array kAllIsas = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512Vnni};

Isa detect_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2");
  const bool avx512vnni = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512vnni");
  if (avx2 && avx512vnni) return Isa::kAvx512Vnni;
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kScalar;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512Vnni:
      return "avx512vnni";
  }
  return "unknown";
}

Isa best_isa() {
  static const Isa best = detect_isa();
  return best;
}

Result<Isa> parse_isa(std::string_view name) {
  if (name == "auto") return best_isa();
  std::string choices = "auto";
  for (const Isa isa : kAllIsas) {
    if (isa <= best_isa()) choices += ", " + std::string(isa_name(isa));
    if (name != isa_name(isa)) continue;
    if (isa <= best_isa()) return isa;
    return invalid_input("this CPU has no " + std::string(name) + "; its best instruction set is " +
                         std::string(isa_name(best_isa())));
  }
  return invalid_input("unknown instruction set '" + std::string(name) + "'; choose one of " +
                       choices);
}

std::string cpu_model_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace mantissa
