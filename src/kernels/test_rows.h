// What the tests of all rows of a kernel family share: rows that this CPU lacks are skipped, and a
// test is named by its row's instruction set.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/cpu.h"

namespace mantissa::kernels {

template <typename Kernels>
class RowTest : public testing::TestWithParam<const Kernels*> {
 protected:
  void SetUp() override {
    const Isa isa = this->GetParam()->isa;
    if (isa > best_isa()) GTEST_SKIP() << "this CPU lacks " << isa_name(isa);
  }
};

inline constexpr auto row_name = [](const auto& row) {
  return std::string(isa_name(row.param->isa));
};

}  // namespace mantissa::kernels
