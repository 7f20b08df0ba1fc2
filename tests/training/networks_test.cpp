// Every network compiles for images of every usual size, or says why not.
#include <gtest/gtest.h>

#include "kernels/kernel_table.h"
#include "models/models.h"
#include "plan/programs/program.h"

namespace mantissa::testing {
namespace {

Result<Program> compiled(const char* name, const ModelOptions& options) {
  const auto graph = build_model(name, options);
  if (!graph.ok()) return graph.error();
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  return compile(*graph, {.micro_batch_size = 2}, {&table, 2});
}

constexpr ModelOptions kSizes[] = {{.height = 28, .width = 28, .channels = 1},
                                   {.height = 32, .width = 32, .channels = 3},
                                   {.height = 64, .width = 64, .channels = 3, .classes = 100},
                                   {.height = 96, .width = 40, .channels = 3},
                                   {.height = 224, .width = 224, .channels = 3, .classes = 256}};

TEST(Networks, CompileForImagesOfAnySize) {
  for (const ModelInfo& info : models()) {
    for (const ModelOptions& options : kSizes) {
      const auto program = compiled(info.name, options);
      if (program.ok()) continue;
      // Only a linear layer that reads all of a large image has too many inputs.
      EXPECT_EQ(options.height, 224) << info.name << ": " << program.error().message;
      EXPECT_NE(program.error().message.find("are not exact in int32"), std::string::npos)
          << program.error().message;
      EXPECT_TRUE(std::string_view("mlp vgg8b linear_blocks").find(info.name) !=
                  std::string_view::npos)
          << program.error().message;
    }
  }
}

TEST(Networks, ConvolutionalOnesTakeOddSizes) {
  for (const char* name : {"resnet18", "mobilenet_v2", "inception_small", "squeezenet"}) {
    for (const int64_t height : {17, 33, 65, 113}) {
      const auto program = compiled(name, {.height = height, .width = height + 14, .channels = 3});
      EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
    }
  }
}

}  // namespace
}  // namespace mantissa::testing
