#include "report/statistics.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace mantissa {
namespace {

using Json = nlohmann::ordered_json;

// Observations of one tensor: a value with 7 bits, unless said otherwise.
std::string lines(const std::string& observed, const char* kind = "value", int bits = 7) {
  return "{\"step\":0,\"tensors\":[{\"name\":\"conv1\",\"kind\":\"" + std::string(kind) +
         "\",\"written_by\":\"conv1\",\"bits\":" + std::to_string(bits) + "}]}\n" + observed;
}

std::string line(int step, int exponent, int saturated, int largest,
                 const std::string& counts = "") {
  const auto column = [](const char* name, const std::string& number) {
    return std::string(",\"") + name + "\":[" + number + "]";
  };
  return "{\"step\":" + std::to_string(step) + column("elements", "1000") +
         column("exponent", std::to_string(exponent)) +
         column("saturated", std::to_string(saturated)) +
         column("largest_bits", std::to_string(largest)) + column("mean_bits", "3.5") +
         column("re_executions", "1") + column("mispredictions", "2") +
         (counts.empty() ? "" : column("bit_counts", counts)) + "}\n";
}

class Statistics : public ::testing::Test {
 protected:
  // A run with these lines of tensors.jsonl.
  RunRecord run(const std::string& text, const char* format = "bfp8") {
    std::filesystem::create_directories(folder_ / "run");
    put_file(folder_ / "run/config.toml", "format = \"" + std::string(format) + "\"\n");
    put_file(folder_ / "run/tensors.jsonl", text);
    auto record = read_run(folder_ / "run");
    EXPECT_TRUE(record.ok());
    return std::move(*record);
  }

  Json tensor(const std::string& text) {
    const auto json = tensor_statistics(run(text), "");
    EXPECT_TRUE(json.ok()) << (json.ok() ? "" : json.error().message);
    return json.ok() ? (*json)["tensors"].at(0) : Json();
  }

  TestFolder folder_;
};

TEST_F(Statistics, SumUpTheObservedSteps) {
  const Json found = tensor(lines(line(50, -9, 0, 7, "[5,1,2]") + line(100, -7, 0, 7, "[4,3,3]") +
                                  line(150, -8, 3, 7, "[6,1,3]")));
  EXPECT_EQ(found["name"], "conv1");
  EXPECT_EQ(found["exponent"], -8);
  EXPECT_EQ(found["smallest_exponent"], -9);
  EXPECT_EQ(found["largest_exponent"], -7);
  EXPECT_DOUBLE_EQ(found["clipped"], 0.001);
  EXPECT_EQ(found["repeated"], 3);
  EXPECT_EQ(found["bit_use"], 0.5);
  EXPECT_EQ(found["bit_counts"], Json({6, 1, 3}));
  EXPECT_EQ(found["advice"].size(), 1);  // 1.5 in 1000 clipped in the second half
}

TEST_F(Statistics, AreThereWithoutHistograms) {
  const Json found = tensor(lines(line(50, -9, 0, 7)));
  EXPECT_FALSE(found.contains("bit_counts"));
  EXPECT_TRUE(found["advice"].empty());
}

TEST_F(Statistics, SayWhatIsWorthALook) {
  const auto advice = [&](const std::string& text) {
    const Json list = tensor(text)["advice"];
    EXPECT_EQ(list.size(), 1) << list;
    return list.empty() ? std::string() : list[0].get<std::string>();
  };
  EXPECT_EQ(advice(lines(line(50, -9, 4, 7))),
            "clips 0.4 % of its mantissas: more bits would keep them");
  EXPECT_EQ(advice(lines(line(50, -9, 0, 7) + line(100, -9, 0, 0, "[9]"))), "is nothing but zeros");
  EXPECT_NE(advice(lines(line(50, -9, 0, 7, "[100,6,3,1]"))).find("60 % of what is not zero"),
            std::string::npos);
  EXPECT_NE(advice(lines(line(50, -9, 0, 59), "parameter gradient", 60)).find("2^60"),
            std::string::npos);
  // With few bits many ones are to be expected, and logits are sums.
  EXPECT_TRUE(tensor(lines(line(50, -9, 0, 3, "[100,6,3,1]"), "value", 3))["advice"].empty());
  EXPECT_TRUE(tensor(lines(line(50, -9, 4, 20), "value", 31))["advice"].empty());
}

TEST_F(Statistics, NameTheStepOfTheHistograms) {
  const RunRecord record = run(lines(line(50, -9, 0, 7, "[5,1]") + line(100, -9, 0, 7)));
  const auto json = tensor_statistics(record, "");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["histogram_step"], 50);
  EXPECT_EQ((*json)["last_step"], 100);
  EXPECT_TRUE((*tensor_statistics(run(lines(line(50, -9, 0, 7))), ""))["histogram_step"].is_null());
}

TEST_F(Statistics, SayWhatIsDamaged) {
  const auto json = tensor_statistics(run(lines(line(50, -9, 0, 7) + "{]\n")), "");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["observed_steps"], 1);
  ASSERT_EQ((*json)["problems"].size(), 1);
  EXPECT_NE((*json)["problems"][0].get<std::string>().find("tensors.jsonl, line 3"),
            std::string::npos);
}

TEST_F(Statistics, OfOneKind) {
  const RunRecord record = run(lines(line(50, -9, 0, 7)));
  EXPECT_EQ((*tensor_statistics(record, "value"))["tensors"].size(), 1);
  EXPECT_TRUE((*tensor_statistics(record, "gradient"))["tensors"].empty());
}

TEST_F(Statistics, SayWhyThereAreNone) {
  const auto error = [&](const RunRecord& record) {
    const auto json = tensor_statistics(record, "");
    EXPECT_FALSE(json.ok());
    return json.ok() ? std::string() : json.error().message;
  };
  EXPECT_NE(error(run(lines(""))).find("every 50 steps"), std::string::npos);
  EXPECT_NE(error(run("", "fp32")).find("fp32 has no mantissas"), std::string::npos);
  EXPECT_NE(error(run("{]\n")).find("tensors.jsonl, line 1: damaged"), std::string::npos);
  EXPECT_NE(error(run(lines(line(50, -9, 0, 7, "[[1]]")))).find("line 2"), std::string::npos);
  for (const char* counts : {"7", "[-1]", "[1.5]", "[1e308]", "[9007199254740993]", "null"}) {
    EXPECT_NE(error(run(lines(line(50, -9, 0, 7, counts)))).find("line 2"), std::string::npos)
        << counts;
  }
  // Steps of tensors that have no name yet.
  const std::string early =
      R"({"step":50,"elements":[],"exponent":[],"saturated":[],"largest_bits":[],"mean_bits":[],)"
      R"("re_executions":[],"mispredictions":[]})"
      "\n";
  EXPECT_NE(error(run(early + lines(""))).find("line 1: damaged"), std::string::npos);
}

TEST_F(Statistics, NumbersMayBeAnything) {
  const Json found =
      tensor(lines(R"({"step":50,"elements":[0],"exponent":[1e308],"saturated":[-1],)"
                   R"("largest_bits":[-1e308],"mean_bits":[1e308],)"
                   R"("re_executions":[1e308],"mispredictions":[1e308]})"
                   "\n"));
  EXPECT_EQ(found["name"], "conv1");
}

}  // namespace
}  // namespace mantissa
