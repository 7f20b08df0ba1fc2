#include "formats/gguf/gguf_writer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/float16.h"
#include "base/test_folder.h"
#include "formats/gguf/gguf_blocks.h"

namespace mantissa {
namespace {

TEST(GgufWriter, FilesAreReadBack) {
  const TestFolder folder;
  const auto path = folder / "a.gguf";
  GgufKeys keys;
  keys.add_text("general.architecture", "llama");
  keys.add_whole("count", 4000000000U);
  keys.add_real("real", 0.1F);
  keys.add_truth("truth", true);
  keys.add_texts("texts", std::vector<std::string>{"", "a b", "ü"});
  keys.add_wholes("wholes", std::vector<int32_t>{-1, 0, 7});
  std::string floats, halves;
  const std::vector<float> numbers = {1, -0.5F, 3.14159F};
  append_numbers(kGgufF32, numbers, floats);
  append_numbers(kGgufF16, numbers, halves);
  ASSERT_TRUE(write_gguf(path, keys,
                         std::vector<GgufTensorBytes>{{"first", {1, 3}, kGgufF32, floats},
                                                      {"second", {3}, kGgufF16, halves}})
                  .ok());
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->text("general.architecture"), "llama");
  EXPECT_EQ(*file->whole("count"), 4000000000);
  EXPECT_EQ(*file->real("real"), double{0.1F});
  EXPECT_EQ(*file->truth("truth"), true);
  EXPECT_EQ(*file->texts("texts"), (std::vector<std::string>{"", "a b", "ü"}));
  EXPECT_EQ(*file->wholes("wholes"), (std::vector<int64_t>{-1, 0, 7}));
  const GgufTensor* first = file->find_tensor("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->shape, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(*file->floats(*first), numbers);
  const auto second = *file->floats(*file->find_tensor("second"));
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(second[i], from_float16(to_float16(numbers[i])));
  }
}

std::vector<float> dequantised(const std::string& blocks, size_t count) {
  std::vector<float> numbers(count);
  dequantise(*gguf_block_type(kGgufQ8_0),
             std::span(reinterpret_cast<const uint8_t*>(blocks.data()), blocks.size()), numbers);
  return numbers;
}

TEST(GgufWriter, MantissasAreInBlocksExactly) {
  std::vector<int8_t> mantissas;
  for (int i = 0; i < 64; ++i) mantissas.push_back(static_cast<int8_t>(i * 37 % 255 - 127));
  for (const int exponent : {-24, -15, -10, 0, 15}) {
    std::string blocks;
    append_q8_0(mantissas, exponent, blocks);
    ASSERT_EQ(blocks.size(), 68u);
    const std::vector<float> numbers = dequantised(blocks, mantissas.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_EQ(numbers[i], std::ldexp(static_cast<float>(mantissas[i]), exponent)) << exponent;
    }
  }
}

TEST(GgufWriter, NumbersAreRoundedToTheLargestOfABlock) {
  std::vector<float> numbers(32, 0.0F), zeros(32, 0.0F);
  numbers[0] = -254;  // the scale is 2
  numbers[1] = 3;     // 1.5 is rounded away from zero
  numbers[2] = -5;
  numbers[3] = 0.9F;
  std::string blocks;
  append_q8_0(numbers, blocks);
  append_q8_0(zeros, blocks);
  const std::vector<float> found = dequantised(blocks, 64);
  EXPECT_EQ(found[0], -254);
  EXPECT_EQ(found[1], 4);
  EXPECT_EQ(found[2], -6);
  EXPECT_EQ(found[3], 0);
  EXPECT_EQ(found[32], 0);
}

}  // namespace
}  // namespace mantissa
