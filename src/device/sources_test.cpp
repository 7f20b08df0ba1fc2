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

TEST(PackedWeights, FewestBits) {
  const int8_t two[] = {-2, 1, 0, -1, 1};
  const PackedWeights of_two = pack_weights(two);
  EXPECT_EQ(of_two.bits, 2);
  EXPECT_EQ(of_two.shift, 0);
  EXPECT_EQ(of_two.bytes, (std::vector<int64_t>{0b11'00'01'10, 0b01}));
  const int8_t four[] = {-64, 56, 8};  // multiples of 8
  const PackedWeights of_four = pack_weights(four);
  EXPECT_EQ(of_four.bits, 4);
  EXPECT_EQ(of_four.shift, 3);
  EXPECT_EQ(of_four.bytes, (std::vector<int64_t>{0x78, 0x1}));
  const int8_t eight[] = {-127, 2};
  EXPECT_EQ(pack_weights(eight).bits, 8);
  EXPECT_EQ(pack_weights({}).bits, 2);
}

}  // namespace
}  // namespace mantissa::device
