#include "measure/benchmark.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_folder.h"
#include "data/synthetic.h"
#include "measure/benchmark_json.h"
#include "measure/benchmark_rows.h"

namespace mantissa {
namespace {

using Json = nlohmann::ordered_json;

BenchmarkConfig small_config() {
  auto run = make_run_config(
      {{"model", "mlp"}, {"data", kSyntheticData}, {"batch-size", "8"}, {"threads", "1"}});
  EXPECT_TRUE(run.ok());
  return {.run = *run, .height = 8, .width = 8, .steps = 3, .warmup_steps = 1};
}

BenchmarkRow row(const char* phase, const char* op, const char* name, double us) {
  BenchmarkRow result;
  result.phase = phase;
  result.op = op;
  result.name = name;
  result.median_us = us;
  result.multiply_adds = 1000;
  result.bytes = 10;
  return result;
}

// A made-up benchmark: two layers, the second with two instructions of the same name.
Json made_up(double factor) {
  Benchmark benchmark;
  benchmark.cpu = "a CPU";
  benchmark.peaks = {{.threads = 1, .integer_gops = 100}};
  benchmark.instructions = {
      row("forward", "linear", "one", 10 * factor), row("backward_input", "sum", "two", 4 * factor),
      row("backward_input", "sum", "two", 6 * factor), row("update", "sgd", "one", 2 * factor)};
  benchmark.by_op = sums(benchmark.instructions, true);
  benchmark.by_phase = sums(benchmark.instructions, false);
  benchmark.step = total(benchmark.instructions);
  benchmark.step.median_us = 25 * factor;
  return to_json(small_config(), benchmark);
}

TEST(Benchmark, QuantilesAreInterpolated) {
  EXPECT_EQ(quantile({}, 0.5), 0);
  EXPECT_EQ(quantile({7}, 0.9), 7);
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_EQ(quantile({10, 0}, 0.1), 1);
}

TEST(Benchmark, SumsAreSlowestFirst) {
  const Json json = made_up(1);
  ASSERT_EQ(json["by_op"].size(), 3u);
  EXPECT_EQ(json["by_op"][0]["op"], "linear");
  EXPECT_EQ(json["by_op"][1]["op"], "sum");
  EXPECT_EQ(json["by_op"][1]["median_us"], 10);
  EXPECT_EQ(json["by_op"][1]["instructions"], 2);
  EXPECT_EQ(json["by_op"][1]["multiply_adds"], 2000);
  EXPECT_EQ(json["by_op"][1]["percent_of_step"], 40);
  EXPECT_EQ(json["by_phase"].size(), 3u);
  EXPECT_FALSE(json["by_phase"][0].contains("op"));
}

TEST(Benchmark, RatesAreRelativeToThePeak) {
  const Json json = made_up(1);
  const Json& linear = json["instructions"][0];
  EXPECT_DOUBLE_EQ(linear["gops"].get<double>(), 0.2);  // 2 * 1000 in 10 microseconds
  EXPECT_DOUBLE_EQ(linear["percent_of_peak"].get<double>(), 0.2);
  EXPECT_DOUBLE_EQ(linear["gb_per_s"].get<double>(), 0.001);
}

// A batch norm writes a record of statistics in each micro-batch. At the end of the step all
// records are read.
TEST(Benchmark, CountsStatisticsOncePerStep) {
  constexpr int64_t kRecordBytes = 64, kMicroBatches = 4;
  const Op op = {.name = "norm"};
  Program program;
  program.options.micro_batches = kMicroBatches;
  program.buffers.push_back(
      {"norm", BufferKind::kStatistics, kMicroBatches * kRecordBytes, 0, 1, 0});
  Instruction forward, update;
  forward.op = update.op = &op;
  const Operand statistics{.space = Operand::Space::kArena,
                           .type = DataType::kUint8,
                           .index = 0,
                           .shape = Shape{kMicroBatches * kRecordBytes}};
  forward.add({}, Role::kOutput, Access::kWrites);
  forward.add(statistics, Role::kStatistics, Access::kWrites);
  update.add(statistics, Role::kStatistics, Access::kReads);
  update.once_per_step = true;
  program.instructions = {forward, update};
  EXPECT_EQ(describe_instruction(program, 0, {}).bytes, kMicroBatches * kRecordBytes);
  EXPECT_EQ(describe_instruction(program, 1, {}).bytes, kMicroBatches * kRecordBytes);
}

TEST(Benchmark, ComparesRowByRow) {
  Json now = made_up(1);
  compare_benchmarks(made_up(3), "old.json", now);
  EXPECT_EQ(now["comparison"]["file"], "old.json");
  EXPECT_TRUE(now["comparison"]["warnings"].empty()) << now["comparison"];
  EXPECT_EQ(now["step"]["before_us"], 75);
  EXPECT_EQ(now["step"]["speedup"], 3);
  for (const char* table : {"instructions", "by_op", "by_phase"}) {
    for (const Json& compared : now[table]) EXPECT_EQ(compared["speedup"], 3) << compared;
  }
  // Instructions of the same name are matched in their order.
  EXPECT_EQ(now["instructions"][1]["before_us"], 12);
  EXPECT_EQ(now["instructions"][2]["before_us"], 18);
}

TEST(Benchmark, ComparesProgramsThatDiffer) {
  Json before = made_up(1), now = made_up(1);
  before["instructions"].erase(2);
  before["instructions"][0]["name"] = "another";
  compare_benchmarks(before, "old.json", now);
  EXPECT_TRUE(now["instructions"][0]["before_us"].is_null());
  EXPECT_TRUE(now["instructions"][0]["speedup"].is_null());
  EXPECT_EQ(now["instructions"][1]["before_us"], 4);
  EXPECT_TRUE(now["instructions"][2]["before_us"].is_null());
  EXPECT_EQ(now["comparison"]["instructions_only_now"], 2);
  EXPECT_EQ(now["comparison"]["instructions_only_before"], 1);
  EXPECT_EQ(now["comparison"]["only_before_us"], 10);
}

TEST(Benchmark, WarnsOfOtherConditions) {
  const auto warnings = [](const char* section, const char* name, const Json& value) {
    Json before = made_up(1), now = made_up(1);
    before[section][name] = value;
    compare_benchmarks(before, "old.json", now);
    return now["comparison"]["warnings"].dump();
  };
  EXPECT_EQ(warnings("machine", "cpu", "b CPU"), R"(["cpu differs: now a CPU, before b CPU"])");
  EXPECT_EQ(warnings("machine", "threads", 2), R"(["threads differs: now 1, before 2"])");
  EXPECT_EQ(warnings("machine", "isa", 5).find("[\"isa differs: "), 0u);
  EXPECT_EQ(warnings("run", "batch_size", 128), R"(["batch_size differs: now 8, before 128"])");
  EXPECT_EQ(warnings("run", "input_size", Json{8, 8}),
            R"(["input_size differs: now [8,8,1], before [8,8]"])");
  EXPECT_EQ(warnings("run", "model", "mlp"), "[]");
  EXPECT_EQ(warnings("machine", "compiler", "another"), "[]");
  // Long texts are cut, but not within a character.
  EXPECT_EQ(warnings("run", "model", std::string(1000, 'x')),
            "[\"model differs: now mlp, before " + std::string(60, 'x') + "...\"]");
  EXPECT_EQ(warnings("run", "model", std::string(59, 'x') + "\u00e9y"),
            "[\"model differs: now mlp, before " + std::string(59, 'x') + "...\"]");
}

class SavedBenchmark : public testing::Test {
 protected:
  std::string refusal(const std::string& text) {
    put_file(folder / "bench.json", text);
    const auto read = read_benchmark(benchmark_file(folder.path().string()));
    if (read.ok()) return "";
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(read.error().message.find((folder / "bench.json").string()), std::string::npos);
    return read.error().message;
  }
  std::string refusal(const Json& json) { return refusal(json.dump()); }

  TestFolder folder;
};

TEST_F(SavedBenchmark, IsReadBack) {
  EXPECT_EQ(refusal(made_up(1)), "");
  const auto read = read_benchmark((folder / "bench.json").string());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, nlohmann::json(made_up(1)));
}

TEST_F(SavedBenchmark, IsRefusedIfItIsNotOne) {
  EXPECT_NE(refusal(std::string("{")).find("is no JSON"), std::string::npos);
  EXPECT_NE(refusal(std::string()).find("is no JSON"), std::string::npos);
  EXPECT_NE(refusal(std::string(100'000, '[')).find("is no JSON"), std::string::npos);
  EXPECT_NE(refusal(Json::array()).find("was not written by mantissa bench"), std::string::npos);
  EXPECT_NE(refusal(Json{{"model", "mlp"}}).find("was not written"), std::string::npos);
  EXPECT_NE(refusal(Json{{"mantissa_bench", 2}}).find("does not know"), std::string::npos);
  EXPECT_FALSE(read_benchmark((folder / "none.json").string()).ok());
}

TEST_F(SavedBenchmark, IsRefusedIfItIsNotWhole) {
  for (const char* name : {"machine", "run", "step", "instructions", "by_op", "by_phase"}) {
    Json json = made_up(1);
    json[name] = "something else";
    EXPECT_NE(refusal(json).find(std::string("'") + name + "'"), std::string::npos) << name;
    json.erase(name);
    EXPECT_NE(refusal(json).find(std::string("'") + name + "'"), std::string::npos) << name;
  }
  for (const Json& time : {Json("fast"), Json(-1), Json()}) {
    Json json = made_up(1);
    json["by_op"][1]["median_us"] = time;
    EXPECT_NE(refusal(json).find("entry 1 of 'by_op'"), std::string::npos) << time;
    json = made_up(1);
    json["step"]["median_us"] = time;
    EXPECT_NE(refusal(json).find("no time of a step"), std::string::npos) << time;
  }
}

TEST_F(SavedBenchmark, IsRefusedIfConditionsAreNotFlat) {
  for (const char* section : {"machine", "run"}) {
    const std::string place = std::string("value in '") + section + "'";
    for (const char* value : {"{}", R"({"a": 1})", R"(["a"])", "[[1]]", "[1,2,3,4,5,6,7,8,9]"}) {
      Json json = made_up(1);
      json[section]["model"] = Json::parse(value);
      EXPECT_NE(refusal(json).find(place), std::string::npos) << value;
    }
  }
}

// This holds everywhere, also in parts that nobody reads.
TEST_F(SavedBenchmark, IsRefusedIfItIsDeepOrHasManyNames) {
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  for (const std::string place : {"{", "\"machine\":{", "\"run\":{", "\"instructions\":[{"}) {
    std::string text = made_up(1).dump();
    text.insert(text.find(place) + place.size(), "\"odd\":" + deep + ",");
    EXPECT_NE(refusal(text).find("is no JSON, or"), std::string::npos) << place;
  }
  std::string names;
  for (int i = 0; i < 200'000; ++i) names += "\"" + std::to_string(i) + "\":0,";
  EXPECT_NE(refusal(made_up(1).dump().insert(1, names)).find("is no JSON, or"), std::string::npos);
}

TEST_F(SavedBenchmark, IsRefusedIfItIsTooLarge) {
  EXPECT_NE(refusal(std::string(5 << 20, ' ')).find("is too large"), std::string::npos);
}

TEST(RunBenchmark, MeasuresEveryInstruction) {
  int64_t steps = 0;
  const auto benchmark = run_benchmark(small_config(), [&](const TrainEvent& event) {
    EXPECT_EQ(event.step, ++steps);
    EXPECT_EQ(event.steps, 4);
    return true;
  });
  ASSERT_TRUE(benchmark.ok()) << benchmark.error().message;
  EXPECT_EQ(steps, 4);
  ASSERT_EQ(benchmark->peaks.size(), 1u);
  EXPECT_GT(benchmark->peaks[0].integer_gops, 0);
  EXPECT_GT(benchmark->peaks[0].read_gb_per_s, 0);
  EXPECT_GT(benchmark->step.median_us, 0);
  EXPECT_LE(benchmark->step_p10_us, benchmark->step.median_us);
  EXPECT_GE(benchmark->step_p90_us, benchmark->step.median_us);
  EXPECT_GE(benchmark->overhead_us, 0);
  for (const BenchmarkRow& instruction : benchmark->instructions) {
    EXPECT_GT(instruction.bytes, 0) << instruction.name;
    EXPECT_GT(instruction.output.rank, 0) << instruction.name;
    EXPECT_FALSE(instruction.kernel.empty()) << instruction.name;
  }
}

TEST(RunBenchmark, CountsMultiplyAddsOfAllMicroBatches) {
  BenchmarkConfig config = small_config();
  config.run.micro_batch_size = 2;
  const auto parts = run_benchmark(config, nullptr), whole = run_benchmark(small_config(), nullptr);
  ASSERT_TRUE(parts.ok() && whole.ok());
  // Forward and both gradients; the pixels have no gradient.
  const int64_t first = 64 * 200, others = 200 * 100 + 100 * 50 + 50 * 10;
  EXPECT_EQ(whole->step.multiply_adds, 8 * (2 * first + 3 * others));
  EXPECT_EQ(parts->step.multiply_adds, whole->step.multiply_adds);
}

TEST(RunBenchmark, CanBeStopped) {
  const auto stopped =
      run_benchmark(small_config(), [](const TrainEvent& event) { return event.step < 2; });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kInterrupted);
}

}  // namespace
}  // namespace mantissa
