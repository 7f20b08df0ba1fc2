#include "run/logs/tensor_log.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/test_folder.h"
#include "kernels/kernel_table.h"
#include "models/models.h"

namespace mantissa {
namespace {

class TensorLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto graph = build_model("mlp", {.height = 4, .width = 4, .channel_means = {0}});
    ASSERT_TRUE(graph.ok());
    graph_ = std::move(*graph);
    const kernels::KernelTable table = kernels::select_kernels(Isa::kScalar);
    auto program = compile(graph_, {.micro_batch_size = 2}, {&table, 1});
    ASSERT_TRUE(program.ok());
    program_ = std::move(*program);
  }

  // The log's message about missing lines.
  std::string go_on(const std::string& name, int64_t from, int64_t to) {
    auto log = TensorLog::open(folder_ / name, graph_, program_, from, 50, true);
    EXPECT_TRUE(log.ok());
    const Observations observations(program_);
    for (int64_t step = from + 50; step <= to; step += 50) {
      EXPECT_TRUE(log->write(step, observations.tensors()).ok());
    }
    return log->gap();
  }

  TestFolder folder_;
  Graph graph_;
  Program program_;
};

TEST_F(TensorLogTest, ResumedIsTheSameFileAsNeverStopped) {
  EXPECT_EQ(go_on("whole", 0, 300), "");
  EXPECT_EQ(go_on("stopped", 0, 200), "");
  EXPECT_EQ(go_on("stopped", 150, 300), "");
  EXPECT_EQ(get_file(folder_ / "whole"), get_file(folder_ / "stopped"));
}

TEST_F(TensorLogTest, AFileOfAnotherProgramIsBegunAnew) {
  put_file(folder_ / "log", std::string("{\"step\":0,\"tensors\":[]}\n{\"step\":50}\n"));
  EXPECT_NE(go_on("log", 100, 150).find("begins anew"), std::string::npos);
  EXPECT_NE(go_on("fresh", 100, 150).find("between step 0 and step 100"), std::string::npos);
  EXPECT_EQ(get_file(folder_ / "log"), get_file(folder_ / "fresh"));
}

TEST_F(TensorLogTest, NamesEveryTensorOnceAndHasAColumnForEach) {
  go_on("log", 0, 50);
  std::istringstream lines(get_file(folder_ / "log"));
  std::string first, second;
  std::getline(lines, first);
  std::getline(lines, second);
  const auto header = nlohmann::json::parse(first), line = nlohmann::json::parse(second);
  std::set<std::string> names;
  std::map<std::string, int> bits;
  for (const auto& tensor : header["tensors"]) {
    names.insert(tensor["kind"].get<std::string>() + tensor["written_by"].get<std::string>());
    bits[tensor["kind"].get<std::string>() + " " + tensor["name"].get<std::string>()] =
        tensor["bits"];
  }
  EXPECT_EQ(names.size(), header["tensors"].size());
  EXPECT_EQ(bits["parameter linear1.weights"], 7);
  EXPECT_EQ(bits["parameter linear1.bias"], 15);
  EXPECT_EQ(bits["parameter gradient linear1.weights"], 60);
  for (const char* column : {"elements", "exponent", "saturated", "largest_bits", "mean_bits",
                             "re_executions", "mispredictions", "bit_counts"}) {
    EXPECT_EQ(line[column].size(), header["tensors"].size()) << column;
  }
}

}  // namespace
}  // namespace mantissa
