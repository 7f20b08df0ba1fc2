// The extensions of a CPU that kernels are written for, and which of them this CPU has.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mantissa {

// Each is independent of the others: a CPU with AVX-512 VNNI need not have AVX-VNNI, which is VNNI
// in 256 bits.
enum class Feature : uint32_t {
  kAvx2,
  kAvxVnni,
  kAvx512,  // F, BW, DQ and VL
  kAvx512Vnni,
  kAmxInt8,  // tiles of int8, whose registers Linux has granted
};

// A set of features.
class Features {
 public:
  constexpr Features() = default;
  constexpr Features(std::initializer_list<Feature> features) {
    for (const Feature feature : features) bits_ |= 1u << static_cast<uint32_t>(feature);
  }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool contains(Features others) const { return (others.bits_ & ~bits_) == 0; }
  constexpr Features operator|(Features other) const { return Features(bits_ | other.bits_); }
  constexpr Features operator&(Features other) const { return Features(bits_ & other.bits_); }
  constexpr bool operator==(const Features&) const = default;

 private:
  constexpr explicit Features(uint32_t bits) : bits_(bits) {}
  uint32_t bits_ = 0;
};

// The needs of code compiled in a region of base/system/target.h, or for AMX beside one.
inline constexpr Features kNeedsNothing;
inline constexpr Features kNeedsAvx2 = {Feature::kAvx2};
inline constexpr Features kNeedsAvxVnni = kNeedsAvx2 | Features{Feature::kAvxVnni};
inline constexpr Features kNeedsAvx512Vnni =
    kNeedsAvx2 | Features{Feature::kAvx512, Feature::kAvx512Vnni};
inline constexpr Features kNeedsAmx = kNeedsAvx512Vnni | Features{Feature::kAmxInt8};

// Features of this CPU that its operating system supports. The first call asks Linux for AMX's
// registers: a process may not use them before.
Features cpu_features();

// "avx2, avx512"; "none" if there are none.
std::string to_string(Features features);

// Names for the sets of features that a run may use. Kernels that need others are passed over.
enum class Isa { kScalar, kAvx2, kAvxVnni, kAvx512Vnni, kAmx };

// The last that is supported is the best.
inline constexpr std::array kAllIsas = {Isa::kScalar, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512Vnni,
                                        Isa::kAmx};

// "scalar", "avx2", "avxvnni", "avx512vnni", "amx".
std::string_view isa_name(Isa isa);

Features features_of(Isa isa);

// Whether all features of the set are present.
bool is_supported(Isa isa, Features present = cpu_features());

Isa best_isa(Features present = cpu_features());

// Parses a name of isa_name, or "auto" for the best. An unknown name is an error that names the
// choices, and so is a set that is not present.
Result<Isa> parse_isa(std::string_view name, Features present = cpu_features());

// The CPU's own name ("Intel(R) Xeon(R) Processor"), or "unknown".
std::string cpu_model_name();

}  // namespace mantissa
