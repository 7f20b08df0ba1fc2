#include "kernels/peak/peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace mantissa::kernels {
namespace {

std::vector<const PeakKernels*> rows() {
  std::vector<const PeakKernels*> all = {&kPeakReference};
#if defined(__x86_64__)
  if (is_supported(Isa::kAvx2)) all.push_back(&kPeakAvx2);
  if (is_supported(Isa::kAvxVnni)) all.push_back(&kPeakAvxVnni);
  if (is_supported(Isa::kAvx512Vnni)) all.push_back(&kPeakAvx512Vnni);
  if (is_supported(Isa::kAmx)) all.push_back(&kPeakAmx);
#endif
  return all;
}

struct alignas(64) Piece {
  std::byte bytes[kPeakPieceBytes];
};

TEST(Peak, CountsItsMultiplyAdds) {
  for (const PeakKernels* row : rows()) {
    const int64_t one = row->integer_multiply_adds(1);
    EXPECT_GT(one, 0) << row->name;
    EXPECT_EQ(row->integer_multiply_adds(1000), 1000 * one) << row->name;
    EXPECT_EQ(row->float_multiply_adds(1000), 1000 * row->float_multiply_adds(1)) << row->name;
  }
}

TEST(Peak, CopiesAllBytesAndNoMore) {
  for (const PeakKernels* row : rows()) {
    std::vector<Piece> from(4), to(4);
    for (size_t i = 0; i < from.size() * sizeof(Piece); ++i) from[0].bytes[i] = std::byte(i * 7);
    const std::vector<Piece> before = to;
    row->read(from[1].bytes, 2 * kPeakPieceBytes);
    row->copy(to[1].bytes, from[1].bytes, 2 * kPeakPieceBytes);
    EXPECT_TRUE(std::equal(to[1].bytes, to[1].bytes + 2 * kPeakPieceBytes, from[1].bytes))
        << row->name;
    for (const int outside : {0, 3}) {
      EXPECT_TRUE(
          std::equal(to[outside].bytes, to[outside].bytes + kPeakPieceBytes, before[outside].bytes))
          << row->name;
    }
  }
}

}  // namespace
}  // namespace mantissa::kernels
