#include "api/settings/commands.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "api/settings/settings.h"
#include "mantissa/language.h"
#include "mantissa/onnx.h"
#include "mantissa/runs.h"
#include "mantissa/training.h"

namespace mantissa {
namespace {

// Commands that end, before any work, with an error about files that are not there.
std::map<std::string, std::function<std::string(const Settings&)>> refusing_commands() {
  const auto with = [](Settings settings, const Settings& needed) {
    settings.insert(needed.begin(), needed.end());
    return settings;
  };
  const Settings checkpoint = {{"checkpoint", "/nowhere/run"}};
  return {{"eval", [=](const Settings& s) { return evaluate(with(s, checkpoint)).error(); }},
          {"predict", [=](const Settings& s) { return predict(with(s, checkpoint)).error(); }},
          {"generate", [=](const Settings& s) { return generate(with(s, checkpoint)).error(); }},
          {"fill-mask",
           [=](const Settings& s) {
             return fill_mask(with(with(s, {{"text", "[MASK]"}}), checkpoint)).error();
           }},
          {"translate",
           [=](const Settings& s) { return translate(with(s, checkpoint), {"a"}).error(); }},
          {"embed",
           [=](const Settings& s) {
             return embed(with(s, {{"from", "/nowhere/x"}}), {"a"}).error();
           }},
          {"export", [=](const Settings& s) { return export_model(with(s, checkpoint)).error(); }},
          {"quantize", [](const Settings& s) { return quantize_network(s).error(); }},
          {"bench", [=](const Settings& s) { return bench(with(s, checkpoint)).error(); }},
          {"import",
           [=](const Settings& s) {
             return import_model("/nowhere/x.onnx", with(s, {{"out", "/tmp/x"}})).error();
           }},
          {"run", [](const Settings& s) { return run_onnx("/nowhere/x.onnx", s).error(); }},
          {"report", [](const Settings& s) { return report({"/nowhere/run"}, s).error(); }},
          {"statistics", [](const Settings& s) { return statistics("/nowhere/run", s).error(); }},
          {"data",
           [=](const Settings& s) {
             return describe_data(with(s, {{"data", "/no"}})).error();
           }},
          {"simulate", [=](const Settings& s) {
             return simulate(with(s, {{"from-trace", "/nowhere/x"}})).error();
           }}};
}

TEST(Commands, ReadTheDefaultsThatTheyList) {
  int read = 0;
  for (const auto& [command, refusal] : refusing_commands()) {
    for (const SettingInfo& info : settings_of(command)) {
      if (info.default_value.empty()) continue;
      const std::string error = refusal({{info.name, info.default_value}});
      ++read;
      const bool is_read = !error.starts_with(info.name + ": '") &&
                           error.find("unknown setting") == std::string::npos;
      EXPECT_TRUE(is_read) << command << " " << info.name << ": " << error;
    }
  }
  EXPECT_GT(read, 100);
}

TEST(Commands, RefuseSettingsThatTheyDoNotHave) {
  for (const auto& [command, refusal] : refusing_commands()) {
    EXPECT_EQ(refusal({{"colour", "red"}}), "unknown setting 'colour' of " + command);
  }
}

TEST(Commands, ListEachSettingOnceAndSayWhatItIs) {
  for (const char* command :
       {"bench",  "data", "embed",  "eval",     "export",     "fill-mask", "generate",
        "import", "info", "launch", "plan",     "predict",    "profile",   "quantize",
        "report", "run",  "serve",  "simulate", "statistics", "train",     "translate"}) {
    std::set<std::string> names;
    for (const SettingInfo& info : settings_of(command)) {
      EXPECT_TRUE(names.insert(info.name).second) << command << " " << info.name;
      EXPECT_FALSE(info.name.empty() || info.help.empty()) << command << " " << info.name;
    }
    EXPECT_FALSE(names.empty()) << command;
  }
  EXPECT_TRUE(settings_of("colour").empty());
}

// The column of the table says it; these are a few that must be there, and must not.
TEST(Commands, HaveTheSettingsOfTrainingThatHoldThere) {
  const auto has = [](const char* command, const std::string& name) {
    for (const SettingInfo& info : settings_of(command)) {
      if (info.name == name) return true;
    }
    return false;
  };
  EXPECT_TRUE(has("plan", "stages") && has("quantize", "out") && has("bench", "recompute"));
  EXPECT_TRUE(has("data", "missing") && has("import", "input-mean") && has("info", "hidden"));
  EXPECT_FALSE(has("plan", "out") || has("quantize", "width") || has("bench", "epochs"));
  EXPECT_FALSE(has("data", "format") || has("import", "format") || has("info", "format"));
}

TEST(Commands, ATrainerHasTheSettingsOfSteps) {
  NetworkBuilder net("tiny");
  const Var logits = net.linear(2, net.flatten(net.pixels("pixels", {2, 2, 1})));
  net.cross_entropy(logits, "labels");
  const auto network = net.finish({logits});
  ASSERT_TRUE(network.ok()) << network.error();
  const Settings good = {{"batch-size", "4"}, {"optimizer", "adam"}, {"threads", "1"}};
  EXPECT_EQ(Trainer::create(*network, good).error(), "");
  for (const Setting& setting : training_settings()) {
    const std::string error = Trainer::create(*network, {{setting.name, "x"}}).error();
    const bool is_refused = error.find("is not one of a Trainer") != std::string::npos;
    EXPECT_EQ(is_refused, !setting.has(traits::kInTrainer)) << setting.name << ": " << error;
  }
}

}  // namespace
}  // namespace mantissa
