#include "base/system/cpu.h"

#include <gtest/gtest.h>

namespace mantissa {
namespace {

TEST(ParseIsa, KnowsEveryName) {
  EXPECT_EQ(parse_isa("scalar").value(), Isa::kScalar);
  EXPECT_EQ(parse_isa("auto").value(), best_isa());
  for (const Isa isa : kAllIsas) {
    const auto parsed = parse_isa(isa_name(isa));
    ASSERT_EQ(parsed.ok(), is_supported(isa));
    if (parsed.ok()) {
      EXPECT_EQ(*parsed, isa);
    } else {
      EXPECT_NE(parsed.error().message.find("this CPU has no"), std::string::npos);
    }
  }
}

TEST(ParseIsa, NamesTheChoices) {
  for (const char* name : {"", "AVX2", "sse", "avx2 "}) {
    const auto parsed = parse_isa(name);
    ASSERT_FALSE(parsed.ok());
    EXPECT_NE(parsed.error().message.find("auto, scalar"), std::string::npos);
  }
}

// Like AMD's Zen 4: VNNI in 512 bits, but not in 256.
constexpr Features kWithoutAvxVnni = kNeedsAvx512Vnni;

TEST(Features, AreASet) {
  EXPECT_TRUE(kNeedsNothing.empty());
  EXPECT_TRUE(kNeedsAvx2.contains(kNeedsNothing));
  EXPECT_TRUE(kNeedsAmx.contains(kNeedsAvx512Vnni));
  EXPECT_FALSE(kNeedsAvx512Vnni.contains(kNeedsAvxVnni));
  EXPECT_FALSE(kNeedsAvxVnni.contains(kNeedsAvx512Vnni));
  EXPECT_EQ(kNeedsAvx512Vnni & kNeedsAvxVnni, kNeedsAvx2);
  EXPECT_EQ(to_string(kNeedsAvx512Vnni), "avx2, avx512, avx512vnni");
  EXPECT_EQ(to_string(kNeedsNothing), "none");
}

TEST(Isa, IsSupportedWhereItsFeaturesAre) {
  EXPECT_TRUE(is_supported(Isa::kAvx512Vnni, kWithoutAvxVnni));
  EXPECT_FALSE(is_supported(Isa::kAvxVnni, kWithoutAvxVnni));
  EXPECT_EQ(best_isa(kWithoutAvxVnni), Isa::kAvx512Vnni);
  // Kernels use AVX-512 only with VNNI; without it such a CPU counts as AVX2.
  EXPECT_EQ(best_isa({Feature::kAvx2, Feature::kAvx512}), Isa::kAvx2);
  EXPECT_EQ(best_isa(kNeedsNothing), Isa::kScalar);
  EXPECT_EQ(best_isa(kNeedsAmx | kNeedsAvxVnni), Isa::kAmx);
}

TEST(ParseIsa, RefusesWhatIsNotPresent) {
  const auto parsed = parse_isa("avxvnni", kWithoutAvxVnni);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().message,
            "this CPU has no avxvnni; its best instruction set is avx512vnni");
  const auto unknown = parse_isa("neon", kWithoutAvxVnni);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().message,
            "unknown instruction set 'neon'; choose one of auto, scalar, avx2, avx512vnni");
}

TEST(Cpu, HasAName) { EXPECT_FALSE(cpu_model_name().empty()); }

}  // namespace
}  // namespace mantissa
