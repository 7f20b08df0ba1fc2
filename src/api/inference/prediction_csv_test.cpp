#include "api/inference/prediction_csv.h"

#include <gtest/gtest.h>

namespace mantissa {
namespace {

std::string csv_of(const std::string& name) {
  Predictions predictions;
  predictions.class_names = {name, "b"};
  predictions.predictions.push_back(
      {.source = name, .label = 0, .guess = 0, .probabilities = {1, 0}});
  return prediction_csv(predictions);
}

// OWASP's list of beginnings; in the head, in names and in sources.
TEST(PredictionCsv, KeepsSpreadsheetsFromComputing) {
  for (const std::string name :
       {"=1+1", "=cmd|' /C calc'!A0", "+1+2", "-2+3", "@SUM(A1)", "-cat", "\t=1",
        "\xEF\xBC\x9D"
        "1"}) {
    const std::string csv = csv_of(name);
    EXPECT_EQ(csv.find("," + name), std::string::npos) << csv;
    EXPECT_NE(csv.find("probability,'" + name + ",b\n'" + name + ",0,'" + name), std::string::npos)
        << csv;
  }
  EXPECT_NE(csv_of("=a,b").find("\"'=a,b\""), std::string::npos);
}

TEST(PredictionCsv, LeavesOtherTextsAsTheyAre) {
  for (const std::string name : {"-1", "+5", "-1.5e3", "-", "a=b", "cat", "'x"}) {
    EXPECT_NE(
        csv_of(name).find("probability," + name + ",b\n" + name + ",0," + name + ",0," + name),
        std::string::npos)
        << csv_of(name);
  }
}

}  // namespace
}  // namespace mantissa
