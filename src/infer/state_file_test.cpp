// A state survives its file, and a file with numbers that no training writes is refused by name.
#include "infer/state_file.h"

#include <gtest/gtest.h>

#include <functional>
#include <string_view>

#include "base/test_folder.h"
#include "models/models.h"
#include "runtime/state.h"

namespace mantissa {
namespace {

class StateFile : public ::testing::Test {
 protected:
  // The state of a network in training, as it begins.
  State fresh(const char* text, OptimizerKind optimizer = OptimizerKind::kMomentum) {
    ModelOptions options;
    options.channel_means = {0};
    const auto format = parse_format(text);
    const auto graph = build_model("mlp", options);
    EXPECT_TRUE(format.ok() && graph.ok());
    auto state = State::create(training_layout(*graph, *format, optimizer));
    EXPECT_TRUE(state.ok());
    initialise(*graph, *format, 1, *state);
    return std::move(*state);
  }

  // Reads what was written of `state`; empty where it is accepted, else the error.
  std::string read_back(const State& state, State& into) {
    EXPECT_TRUE(write_state(path_, {}, state).ok());
    const auto file = read_safetensors(path_);
    EXPECT_TRUE(file.ok());
    const Status status = read_state(path_, *file, into);
    return status.ok() ? "" : status.error().message;
  }

  const TestFolder folder_;
  const std::filesystem::path path_ = folder_ / "state.safetensors";
};

TEST_F(StateFile, SurvivesItsFile) {
  for (const char* format : {"bfp8", "dfp8"}) {
    State state = fresh(format), other = fresh(format);
    state.data<int16_t>(state.layout().predictors)[3] = -17;
    EXPECT_NE(state.sha256(StateGroup::kPredictor), other.sha256(StateGroup::kPredictor));
    EXPECT_EQ(read_back(state, other), "");
    EXPECT_EQ(state.sha256(StateGroup::kPredictor), other.sha256(StateGroup::kPredictor));
  }
}

TEST_F(StateFile, RootsOfAdamAreNotNegative) {
  for (const char* format : {"bfp8", "fp32"}) {
    State state = fresh(format, OptimizerKind::kAdam), into = fresh(format, OptimizerKind::kAdam);
    const int root = state.layout().parameters[0].moments[1].mantissa;
    const bool is_float = std::string_view(format) == "fp32";
    const auto set = [&](float x) {
      is_float ? void(state.data<float>(root)[7] = x)
               : void(state.data<int16_t>(root)[7] = static_cast<int16_t>(100 * x));
    };
    set(0.1F);  // a float whose lower half, read as int16, is negative
    EXPECT_EQ(read_back(state, into), "") << format;
    set(-1);
    EXPECT_NE(read_back(state, into).find("has a negative root"), std::string::npos) << format;
  }
}

TEST_F(StateFile, RefusesWhatDecidedExponentsCannotBe) {
  const auto refused = [&](const std::function<void(BitStatistics&, int16_t&)>& spoil) {
    State state = fresh("dfp8"), into = fresh("dfp8");
    spoil(state.data<BitStatistics>(state.layout().bits)[5],
          state.data<int16_t>(state.layout().predictors)[5]);
    return read_back(state, into);
  };
  EXPECT_EQ(refused([](BitStatistics& s, int16_t&) {
              s = {.too_large = 3, .fits = {1, 2, 3, 4, 5}, .largest_exponent = -200};
            }),
            "");
  const std::string counts = path_.string() + ": tensor 'bits' has impossible counts";
  EXPECT_EQ(refused([](BitStatistics& s, int16_t&) { s.too_large = -1; }), counts);
  EXPECT_EQ(refused([](BitStatistics& s, int16_t&) { s.fits[4] = INT64_MAX; }), counts);
  EXPECT_EQ(refused([](BitStatistics& s, int16_t&) { s.largest_exponent = INT64_MIN; }), counts);
  EXPECT_EQ(refused([](BitStatistics& s, int16_t&) { s.largest_exponent = 1001; }), counts);
  const std::string range = path_.string() + ": tensor 'predictors' has a number outside its range";
  EXPECT_EQ(refused([](BitStatistics&, int16_t& e) { e = INT16_MAX; }), range);
  EXPECT_EQ(refused([](BitStatistics&, int16_t& e) { e = kUnmeasured; }), range);
}

}  // namespace
}  // namespace mantissa
