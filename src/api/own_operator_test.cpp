// Operators of one's own through the public interface.
#include "mantissa/own_operator.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "api/training/test_problem.h"
#include "base/test_folder.h"

namespace mantissa {
namespace {

// x * x * factor, whose gradient is 2 * x * factor; and a sum of halves of two inputs.
void register_once() {
  static const bool done = [] {
    OwnOperator square;
    square.name = "own_square";
    square.settings = {{"factor", int64_t{1}, 1, 16}};
    square.forward = [](const OperatorCall& call) {
      const MantissaView x = call.inputs[0];
      const int64_t factor = std::get<int64_t>(call.settings.at("factor"));
      return Wide{2 * x.exponent, [x, factor](int64_t i) { return x[i] * x[i] * factor; }};
    };
    square.gradient = [](const OperatorCall& call, int) {
      const MantissaView x = call.inputs[0], g = call.gradient;
      const int64_t factor = std::get<int64_t>(call.settings.at("factor"));
      return Wide{x.exponent + g.exponent + 1,
                  [x, g, factor](int64_t i) { return x[i] * g[i] * factor; }};
    };
    EXPECT_TRUE(register_operator(square).ok());
    EXPECT_NE(register_operator(square).error().find("there is one"), std::string::npos);
    OwnOperator first;
    first.name = "own_first_channels";
    first.settings = {{"channels", int64_t{1}, 1, 4096}};
    first.shape = [](const OperatorSettings& settings, const std::vector<Dims>& inputs) {
      const int64_t channels = std::get<int64_t>(settings.at("channels"));
      if (inputs[0].size() != 1 || inputs[0][0] < channels) {
        return Outcome<Dims>(Failure{Exit::kInvalidInput, "wants [channels] or more"});
      }
      return Outcome<Dims>(Dims{channels});
    };
    first.forward = [](const OperatorCall& call) {
      const MantissaView x = call.inputs[0];
      const int64_t from = x.dims[1], to = call.output[1];
      return Wide{x.exponent, [x, from, to](int64_t i) { return x[i / to * from + i % to]; }};
    };
    first.gradient = [](const OperatorCall& call, int) {
      const MantissaView x = call.inputs[0], g = call.gradient;
      const int64_t from = x.dims[1], to = g.dims[1];
      return Wide{g.exponent, [g, from, to](int64_t i) {
                    return i % from < to ? g[i / from * to + i % from] : int64_t{0};
                  }};
    };
    return register_operator(first).ok();
  }();
  ASSERT_TRUE(done);
}

Network own_operators_network() {
  NetworkBuilder net("own");
  net.pixels("pixels", {6, 6, 1}, {100});
  net.flatten();
  net.linear(24);
  net.add("own_square", {{}}, {{"factor", int64_t{3}}});
  net.add("own_first_channels", {{}}, {{"channels", int64_t{20}}});
  net.linear(16);
  net.relu();
  const Var logits = net.linear(3);
  net.cross_entropy(logits, "labels");
  return built(net.finish({logits}));
}

TEST(OwnOperators, LearnInEveryIntegerFormat) {
  register_once();
  const Problem train(960);
  for (const char* format : {"bfp8", "bfp:g=8,gr=stochastic", "dfp8", "bfp:a=12,w=12"}) {
    SCOPED_TRACE(format);
    Settings settings = kSmall;
    settings["format"] = format;
    settings["learning-rate"] = "0.02";
    Trainer trainer = trainer_of(own_operators_network(), settings);
    const auto history = trainer.fit(train.pictures(), {.epochs = 8});
    ASSERT_TRUE(history.ok()) << history.error();
    EXPECT_GT(history->back().training.losses[0].accuracy, 0.9);
    EXPECT_TRUE(trainer.freeze(train.pictures()).ok());
  }
  Settings fp32 = kSmall;
  fp32["format"] = "fp32";
  EXPECT_NE(Trainer::create(own_operators_network(), fp32).error().find("own_square"),
            std::string::npos);
}

TEST(OwnOperators, GiveTheSameBitsOnAnyNumberOfThreads) {
  register_once();
  const Problem train(96);
  const auto hash = [&](const char* threads) {
    Trainer trainer =
        trainer_of(own_operators_network(), {{"batch-size", "32"}, {"threads", threads}});
    EXPECT_TRUE(trainer.fit(train.pictures(), {.epochs = 2}).ok());
    return trainer.weights_sha256();
  };
  EXPECT_EQ(hash("1"), hash("3"));
}

TEST(OwnOperators, AreSavedByNameAndNamedWhereTheyLack) {
  register_once();
  const TestFolder folder;
  const Problem train(96);
  Trainer trainer = trainer_of(own_operators_network(), kSmall);
  ASSERT_TRUE(trainer.fit(train.pictures(), {.epochs = 1}).ok());
  auto model = trainer.freeze(train.pictures());
  ASSERT_TRUE(model.ok()) << model.error();
  ASSERT_TRUE(model->save(folder / "model.safetensors").ok());
  auto loaded = Model::load(folder / "model.safetensors");
  ASSERT_TRUE(loaded.ok()) << loaded.error();
  EXPECT_EQ(*loaded->predict(train.pictures()), *model->predict(train.pictures()));
  std::string json = own_operators_network().to_json();
  json.replace(json.find("own_square\""), 10, "own_cube__");
  const auto lacking = Network::from_json(json);
  EXPECT_NE(lacking.error().find("own_cube__"), std::string::npos) << lacking.error();
}

TEST(OwnOperators, ErrorsSayWhatIsWrong) {
  register_once();
  NetworkBuilder net("wrong");
  net.pixels("pixels", {6, 6, 1});
  net.flatten();
  net.add("own_first_channels", {{}}, {{"channels", int64_t{50}}});
  EXPECT_NE(net.error().find("wants [channels] or more"), std::string::npos) << net.error();
  NetworkBuilder range("range");
  range.pixels("pixels", {6, 6, 1});
  range.add("own_square", {{}}, {{"factor", int64_t{17}}});
  EXPECT_NE(range.error().find("factor"), std::string::npos) << range.error();
  EXPECT_FALSE(register_operator({.name = "a b"}).ok());
  EXPECT_FALSE(register_operator({.name = "own_nothing"}).ok());
}

}  // namespace
}  // namespace mantissa
