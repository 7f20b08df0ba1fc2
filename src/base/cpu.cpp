#include "base/cpu.h"

#include <array>
#include <fstream>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mantissa {
namespace {

using Support = std::array<bool, kAllIsas.size()>;

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows it. Of the operating system it needs no more
// than AVX2.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kFeatures = 7, kAvxVnniBit = 1u << 4;
  return __get_cpuid_count(kFeatures, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvxVnniBit) != 0;
}

// The process may use the tile registers once Linux has granted it, if it and the CPU have them.
bool has_amx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kFeatures = 7, kTileBit = 1u << 24, kInt8Bit = 1u << 25;
  if (__get_cpuid_count(kFeatures, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kTileBit) == 0 || (edx & kInt8Bit) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Support detect() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2");
  const bool avx512vnni = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512vnni");
  return {true, avx2, avx2 && has_avx_vnni(), avx2 && avx512vnni, avx2 && avx512vnni && has_amx()};
}
#else
Support detect() { return {true}; }
#endif

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvxVnni:
      return "avxvnni";
    case Isa::kAvx512Vnni:
      return "avx512vnni";
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

bool is_supported(Isa isa) {
  static const Support support = detect();
  return support[static_cast<size_t>(isa)];
}

Isa best_isa() {
  Isa best = Isa::kScalar;
  for (const Isa isa : kAllIsas) {
    if (is_supported(isa)) best = isa;
  }
  return best;
}

Result<Isa> parse_isa(std::string_view name) {
  if (name == "auto") return best_isa();
  std::string choices = "auto";
  for (const Isa isa : kAllIsas) {
    if (is_supported(isa)) choices += ", " + std::string(isa_name(isa));
    if (name != isa_name(isa)) continue;
    if (is_supported(isa)) return isa;
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
