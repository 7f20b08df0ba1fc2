#include "report/verify.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_folder.h"
#include "run/logs/hash_log.h"

namespace mantissa {
namespace {

using Json = nlohmann::ordered_json;

// A file of hashes of two tensors, "w" and "b", from the digests of each step.
struct Step {
  int64_t step;
  std::string w, b;
};

std::string log_text(const std::vector<Step>& steps, const std::string& identity = "run") {
  std::string text, chain;
  for (const Step& step : steps) {
    Json line = {{"step", step.step}};
    if (text.empty()) line["run_identity"] = identity, line["tensors"] = {"w", "b"};
    line["digests"] = {step.w, step.b};
    chain = chain_hash(chain, line);
    line["chain"] = chain;
    text += line.dump() + "\n";
  }
  return text;
}

class Verify : public ::testing::Test {
 protected:
  Result<HashComparison> compare(const std::string& a, const std::string& b) {
    std::filesystem::create_directories(folder_ / "a");
    std::filesystem::create_directories(folder_ / "b");
    put_file(folder_ / "a/hashes.jsonl", a);
    put_file(folder_ / "b/hashes.jsonl", b);
    return compare_hashes(folder_ / "a", folder_ / "b/hashes.jsonl");
  }

  std::string refusal(const std::string& a, const std::string& b) {
    const auto result = compare(a, b);
    return result.ok() ? "" : result.error().message;
  }

  TestFolder folder_;
};

TEST_F(Verify, SameAndDifferent) {
  const std::string a = log_text({{0, "1", "2"}, {5, "3", "4"}, {10, "5", "6"}});
  auto result = compare(a, a);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->differing_step, -1);
  EXPECT_EQ(result->steps_compared, 3);
  EXPECT_EQ(result->last_same_step, 10);
  EXPECT_TRUE(result->notes.empty());

  result = compare(a, log_text({{0, "1", "2"}, {5, "3", "x"}, {10, "y", "y"}}));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->differing_step, 5);
  EXPECT_EQ(result->last_same_step, 0);
  EXPECT_EQ(result->differing_tensors, std::vector<std::string>{"b"});
}

TEST_F(Verify, ComparesTheCommonSteps) {
  const auto result =
      compare(log_text({{0, "1", "2"}, {4, "?", "?"}, {8, "?", "?"}, {10, "5", "6"}}),
              log_text({{0, "1", "2"}, {5, "3", "4"}, {10, "5", "6"}}));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->differing_step, -1);
  EXPECT_TRUE(result->complete);
  EXPECT_EQ(result->steps_compared, 2);
  EXPECT_EQ(result->notes.size(), 1u) << "hashed at different steps";
}

// Steps that a run lost, or has not come to yet, may differ.
TEST_F(Verify, MissingHashesAreNotTheSame) {
  const Step first = {0, "1", "2"}, second = {5, "3", "4"}, third = {10, "5", "6"},
             fourth = {15, "7", "8"}, last = {18, "9", "0"};
  const std::string whole = log_text({first, second, third, fourth, last});
  const auto note_of = [&](const std::string& other) {
    const auto result = compare(whole, other);
    EXPECT_TRUE(result.ok());
    if (!result.ok()) return result.error().message;
    EXPECT_EQ(result->differing_step, -1);
    EXPECT_FALSE(result->complete);
    return result->notes.empty() ? "" : result->notes.back();
  };
  EXPECT_TRUE(note_of(log_text({first, second, last})).ends_with("between step 5 and step 18"));
  EXPECT_TRUE(
      note_of(log_text({first, second, fourth, last})).ends_with("between step 5 and step 15"));
  EXPECT_TRUE(note_of(log_text({second, third, fourth, last})).ends_with("before step 5"));
  EXPECT_NE(note_of(log_text({first, second})).find("has no hashes after step 5"),
            std::string::npos);

  // Both have the same gap and nothing in between: the configuration tells the distance.
  put_file(folder_ / "a/config.toml", std::string("hash-every = \"5\"\n"));
  auto result = compare(log_text({first, last}), log_text({first, last}));
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->complete);
  std::filesystem::remove(folder_ / "a/config.toml");
  result = compare(log_text({first, last}), log_text({first, last}));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->complete) << "for all that is known, the run hashed every 18 steps";
  // A difference counts, whatever else is missing.
  result = compare(whole, log_text({first, {15, "7", "x"}}));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->differing_step, 15);
}

TEST_F(Verify, AnUnfinishedLastLineIsPassedOver) {
  const std::string a = log_text({{0, "1", "2"}, {5, "3", "4"}});
  const auto result = compare(a, a.substr(0, a.size() - 1));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->steps_compared, 1);
  EXPECT_FALSE(result->complete);
}

TEST_F(Verify, RefusesWhatCannotBeCompared) {
  const std::string a = log_text({{0, "1", "2"}, {5, "3", "4"}});
  EXPECT_NE(refusal(a, log_text({{1, "1", "2"}})).find("no common step"), std::string::npos);
  EXPECT_NE(refusal(a, "").find("no complete line"), std::string::npos);
  EXPECT_NE(refusal(a, "[]\n").find("line 1"), std::string::npos);
  EXPECT_NE(
      refusal(a, "{\"step\":0,\"digests\":" + std::string(100000, '[') + "}\n").find("line 1"),
      std::string::npos);
  EXPECT_NE(refusal(a, log_text({{0, "1", "2"}, {0, "1", "2"}})).find("do not rise"),
            std::string::npos);
  std::string changed = a;
  changed[changed.find("\"3\"") + 1] = '9';
  EXPECT_NE(refusal(a, changed).find("line 2: the chain"), std::string::npos);

  put_file(folder_ / "a/config.toml", std::string("seed = \"1\"\nhash-every = \"5\"\n"));
  put_file(folder_ / "b/config.toml", std::string("seed = \"2\"\nhash-every = \"7\"\n"));
  const std::string other = refusal(a, log_text({{0, "1", "2"}}, "other"));
  EXPECT_TRUE(other.ends_with("different runs: seed 1 / 2")) << other;
  put_file(folder_ / "b/config.toml", std::string("seed = \"1\"\n"));
  EXPECT_NE(refusal(a, log_text({{0, "1", "2"}}, "other")).find("data"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
