// For the tests of all rows of a kernel family: rows that this CPU cannot run are skipped, and a
// test is named by its row.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/system/cpu.h"

namespace mantissa::kernels {

template <typename Kernels>
class RowTest : public testing::TestWithParam<const Kernels*> {
 protected:
  void SetUp() override {
    const Features needs = this->GetParam()->needs;
    if (!cpu_features().contains(needs))
      GTEST_SKIP() << "this CPU lacks one of " << to_string(needs);
  }
};

inline constexpr auto row_name = [](const auto& row) { return std::string(row.param->name); };

}  // namespace mantissa::kernels
