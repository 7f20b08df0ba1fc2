#include "run/logs/trace_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_folder.h"

namespace mantissa {
namespace {

using pipeline::Trace;
using pipeline::Work;

Trace simulated(pipeline::Mode mode, int steps) {
  const pipeline::Options options = {.mode = mode, .stages = 3, .accumulate = 4, .updates = 6};
  const auto schedule = pipeline::make_schedule(options);
  EXPECT_TRUE(schedule.ok());
  const std::vector<pipeline::StageTimes> times = {
      {1000, 2000, 1001, 300}, {1500, 2500, 1400, 200}, {900, 1800, 950, 100}};
  const auto simulation = pipeline::simulate(*schedule, times);
  EXPECT_TRUE(simulation.ok());
  return pipeline::simulated_trace(*schedule, *simulation, steps);
}

TEST(TraceFile, ReadsWhatItWrote) {
  const TestFolder folder;
  for (const auto mode : {pipeline::Mode::kFlush, pipeline::Mode::kAsync}) {
    Trace trace = simulated(mode, 3);
    trace.names[1] = "a \"name\" <&>";
    put_file(folder / "trace.json", trace_json(trace));
    const auto read = read_trace(folder / "trace.json");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->names, trace.names);
    EXPECT_EQ(read->options.mode, mode);
    EXPECT_EQ(read->options.accumulate, 4);
    EXPECT_EQ(read->stages, trace.stages);
  }
}

// The Trace Event Format: an object with "traceEvents"; complete events have a name, ph "X", pid,
// tid, and ts and dur in microseconds; metadata events ph "M" and args.
TEST(TraceFile, IsOfTheTraceEventFormat) {
  const auto json = nlohmann::json::parse(trace_json(simulated(pipeline::Mode::kAsync, 2)));
  EXPECT_EQ(json["displayTimeUnit"], "ms");
  int pieces = 0, rows = 0;
  for (const auto& event : json["traceEvents"]) {
    ASSERT_TRUE(event["pid"].is_number_integer() && event["tid"].is_number_integer());
    ASSERT_TRUE(event["name"].is_string() && event["args"].is_object());
    if (event["ph"] == "M") {
      rows += event["name"] == "thread_name";
      continue;
    }
    ASSERT_EQ(event["ph"], "X");
    ASSERT_TRUE(event["ts"].is_number() && event["dur"].is_number() && event["cat"].is_string());
    EXPECT_GT(event["dur"].get<double>(), 0);
    ++pieces;
  }
  EXPECT_EQ(rows, 3);
  EXPECT_EQ(pieces, 2 * 3 * (4 * 3 + 1));
  EXPECT_EQ(json["traceEvents"][7]["ts"], 0.0);
  EXPECT_EQ(json["traceEvents"][7]["dur"], 1.0);
}

// A simulation is simulated again from its own trace.
TEST(TraceFile, TimesAreThoseOfTheWork) {
  const auto times = pipeline::measured_times(simulated(pipeline::Mode::kFlush, 4));
  ASSERT_TRUE(times.ok());
  EXPECT_EQ((*times)[0].forward, 1000);
  EXPECT_EQ((*times)[1].grad_input, 2500);
  EXPECT_EQ((*times)[2].grad_weights, 950);
  EXPECT_EQ((*times)[1].update, 200);
  EXPECT_FALSE((*times)[0].fused);
  for (const double idle : pipeline::idle_of(simulated(pipeline::Mode::kFlush, 4))) {
    EXPECT_GE(idle, 0);
    EXPECT_LT(idle, 1);
  }
  EXPECT_FALSE(pipeline::measured_times(Trace{.options = {}, .names = {}, .stages = {{}}}).ok());
}

// Each piece of work takes its own time again: the trace of a simulation that jitters gives the
// same simulation, where mean times wait for less.
TEST(TraceFile, EachPieceTakesItsOwnTime) {
  for (const pipeline::Mode mode : {pipeline::Mode::kFlush, pipeline::Mode::kAsync}) {
    const auto schedule =
        pipeline::make_schedule({.mode = mode, .stages = 3, .accumulate = 4, .updates = 6});
    std::vector<pipeline::StageTimes> given(3);
    for (pipeline::StageTimes& stage : given) {
      stage = {.forward = 1000, .grad_input = 1100, .grad_weights = 900, .update = 200};
      stage.fused = mode == pipeline::Mode::kAsync;
    }
    const auto first = pipeline::simulate(*schedule, given, {.jitter = 0.5, .seed = 3});
    const Trace trace = pipeline::simulated_trace(*schedule, *first, 6);
    EXPECT_EQ(pipeline::traced_steps(trace), 6);
    auto times = pipeline::measured_times(trace);
    ASSERT_TRUE(times.ok());
    for (pipeline::StageTimes& stage : *times) stage.fused = mode == pipeline::Mode::kAsync;
    const auto again = pipeline::simulate(*schedule, *times);
    ASSERT_TRUE(again.ok());
    EXPECT_NEAR(again->total, first->total, 100);  // traces have whole nanoseconds
    for (size_t s = 0; s < 3; ++s) {
      EXPECT_NEAR(again->stages[s].idle, first->stages[s].idle, 0.005) << s;
      times->at(s).pieces = {};
    }
    EXPECT_LT(pipeline::simulate(*schedule, *times)->total, 0.99 * first->total);
  }
}

// Files say what they like.
TEST(TraceFile, StepsOfAnotherProgramAreRefused) {
  const Trace good = simulated(pipeline::Mode::kFlush, 3);
  const auto accepts = [](const Trace& trace) { return pipeline::measured_times(trace).ok(); };
  EXPECT_TRUE(accepts(good));
  Trace bad = good;
  bad.stages[1][0].micro_batch = 5;
  EXPECT_FALSE(accepts(bad));
  bad = good;
  bad.stages[0][0].micro_batch = 0;
  EXPECT_FALSE(accepts(bad));
  bad = good;
  bad.stages[2].back().step = int64_t{1} << 40;
  EXPECT_FALSE(accepts(bad));
}

// Behind the traced steps they come again, but for the first, which is slow.
TEST(TraceFile, StepsAreRepeatedFromTheSecondOn) {
  const pipeline::PieceTimes pieces = {.times = {9, 9, 1, 2, 3, 4}, .repeats_from = 2};
  std::vector<double> times;
  for (size_t i = 0; i < 12; ++i) times.push_back(pieces.of(i));
  EXPECT_EQ(times, (std::vector<double>{9, 9, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2}));
}

TEST(TraceFile, RefusesOtherFiles) {
  const TestFolder folder;
  const std::string good = trace_json(simulated(pipeline::Mode::kAsync, 1));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    put_file(folder / "trace.json", text);
    const auto read = read_trace(folder / "trace.json");
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_EQ(with("mantissa", "mantissa"), "");
  EXPECT_NE(with("\"program\":\"mantissa\"", "\"program\":\"other\"").find("is no trace"),
            std::string::npos);
  EXPECT_NE(with("\"stages\":3", "\"stages\":0").find("is no trace"), std::string::npos);
  EXPECT_NE(with("\"stages\":3", "\"stages\":2").find("event"), std::string::npos);
  EXPECT_NE(with("\"ts\":0.000", "\"ts\":-1").find("event 8 is no"), std::string::npos);
  EXPECT_NE(with("\"ts\":0.000", "\"ts\":1e300").find("event 8 is no"), std::string::npos);
  EXPECT_NE(with("\"step\":1", "\"step\":0").find("event 8 is no"), std::string::npos);
  EXPECT_NE(with("]}", "").find("is no trace"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
