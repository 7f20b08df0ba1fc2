#include "base/system/cpu.h"

#include <fstream>
#include <iterator>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mantissa {
namespace {

constexpr std::string_view kFeatureNames[] = {"avx2", "avxvnni", "avx512", "avx512vnni", "amx"};

struct NamedSet {
  std::string_view name;
  Features features;
};

// In the order of kAllIsas.
constexpr NamedSet kSets[] = {{"scalar", kNeedsNothing},
                              {"avx2", kNeedsAvx2},
                              {"avxvnni", kNeedsAvxVnni},
                              {"avx512vnni", kNeedsAvx512Vnni},
                              {"amx", kNeedsAmx}};
static_assert(std::size(kSets) == kAllIsas.size());

const NamedSet& set_of(Isa isa) { return kSets[static_cast<size_t>(isa)]; }

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows it. The operating system has to support no more
// than for AVX2.
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

Features detect() {
  __builtin_cpu_init();
  const auto if_true = [](bool has, Feature feature) {
    return has ? Features{feature} : Features{};
  };
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  // Hardly a CPU has one without the other; kernels of floats take both.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return if_true(avx2, Feature::kAvx2) | if_true(has_avx_vnni(), Feature::kAvxVnni) |
         if_true(avx512, Feature::kAvx512) |
         if_true(__builtin_cpu_supports("avx512vnni"), Feature::kAvx512Vnni) |
         if_true(has_amx(), Feature::kAmxInt8);
}
#else
Features detect() { return {}; }
#endif

}  // namespace

Features cpu_features() {
  static const Features features = detect();
  return features;
}

std::string to_string(Features features) {
  std::string text;
  for (size_t i = 0; i < std::size(kFeatureNames); ++i) {
    if (!features.contains({static_cast<Feature>(i)})) continue;
    text += (text.empty() ? "" : ", ") + std::string(kFeatureNames[i]);
  }
  return text.empty() ? "none" : text;
}

std::string_view isa_name(Isa isa) { return set_of(isa).name; }

Features features_of(Isa isa) { return set_of(isa).features; }

bool is_supported(Isa isa, Features present) { return present.contains(features_of(isa)); }

Isa best_isa(Features present) {
  Isa best = Isa::kScalar;
  for (const Isa isa : kAllIsas) {
    if (is_supported(isa, present)) best = isa;
  }
  return best;
}

Result<Isa> parse_isa(std::string_view name, Features present) {
  if (name == "auto") return best_isa(present);
  std::string choices = "auto";
  for (const Isa isa : kAllIsas) {
    const bool supported = is_supported(isa, present);
    if (supported) choices += ", " + std::string(isa_name(isa));
    if (name != isa_name(isa)) continue;
    if (supported) return isa;
    return invalid_input("this CPU has no " + std::string(name) + "; its best instruction set is " +
                         std::string(isa_name(best_isa(present))));
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
