#include "device/sources.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "device/text/packed_weights.h"

namespace mantissa::device {
namespace {

TEST(DeviceSources, LeaveOutCxx) {
  EXPECT_EQ(without_cxx("#pragma once\n"
                        "#ifdef __cplusplus\n"
                        "#define A 1\n"
                        "#else\n"
                        "#define A 2\n"
                        "#endif\n"
                        "typedef struct S {\n"
                        "  int a REF_CXX(= f(1, 2));\n"
                        "#ifdef __cplusplus\n"
                        "#if defined(__x86_64__)\n"
                        "  int size() const;\n"
                        "#endif\n"
                        "#endif\n"
                        "} S;\n"
                        "#if defined(__GNUC__)\n"
                        "int g;\n"
                        "#else\n"
                        "int h;\n"
                        "#endif\n"),
            "#pragma once\n"
            "#define A 2\n"
            "typedef struct S {\n"
            "  int a;\n"
            "} S;\n"
            "#if defined(__GNUC__)\n"
            "int g;\n"
            "#else\n"
            "int h;\n"
            "#endif\n");
}

// A header brings the headers that it includes, and the sources that implement them.
TEST(DeviceSources, FollowIncludes) {
  const std::string headers[] = {"reference/layers/pooling.h"};
  std::vector<std::string> paths;
  for (const SourceFile& file : sources_of(headers)) {
    paths.push_back(file.path);
    EXPECT_EQ(file.text.find("__cplusplus"), std::string::npos) << file.path;
  }
  const auto has = [&](const char* path) { return std::ranges::find(paths, path) != paths.end(); };
  EXPECT_TRUE(has("reference/types.h"));
  EXPECT_TRUE(has("reference/layers/pooling.c"));
  EXPECT_TRUE(has("reference/layers/pool_windows.c"));
  EXPECT_FALSE(has("reference/layers/convolution.c"));
}

// Two channels of five weights: each fills up a word, or two of 8 bits.
TEST(PackedWeights, FewestBits) {
  const int8_t two[] = {-2, 1, 0, -1, 1, 0, 0, 0, 0, -2};
  const PackedWeights of_two = pack_pairs(two, 1, 2);
  EXPECT_EQ(of_two.bits, 2);
  EXPECT_EQ(of_two.shift, 0);
  // In a byte: weights i, i + 4, i + 8 and i + 12, the first in the highest bits.
  EXPECT_EQ(of_two.words, (std::vector<int64_t>{0xc0'00'40'90, 0x00'00'00'20}));
  const int8_t four[] = {-64, 56, 8};  // multiples of 8
  const PackedWeights of_four = pack_pairs(four, 1, 1);
  EXPECT_EQ(of_four.bits, 4);
  EXPECT_EQ(of_four.shift, 3);
  EXPECT_EQ(of_four.words, (std::vector<int64_t>{0x00'10'70'80, 0}));  // and no partner
  const int8_t eight[] = {-127, 2};
  EXPECT_EQ(pack_pairs(eight, 1, 2).bits, 8);
  EXPECT_EQ(pack_pairs(eight, 1, 2).words, (std::vector<int64_t>{0x81, 2}));
  EXPECT_EQ(packed_bits({}), 2);
}

// Two channels of two taps.
TEST(PackedWeights, TapByTap) {
  const int8_t weights[] = {1, 2, 3, -100};
  EXPECT_EQ(pack_taps(weights, 2).words, (std::vector<int64_t>{0x03'01, 0x9c'02}));
}

}  // namespace
}  // namespace mantissa::device
