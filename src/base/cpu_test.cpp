#include "base/cpu.h"

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

TEST(Cpu, HasAName) { EXPECT_FALSE(cpu_model_name().empty()); }

}  // namespace
}  // namespace mantissa
