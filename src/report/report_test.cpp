#include "report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/test_folder.h"
#include "report/chart.h"
#include "report/describe.h"
#include "report/html.h"

namespace mantissa {
namespace {

// Counts how often `part` is in `text`.
int64_t count(const std::string& text, const std::string& part) {
  int64_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class Report : public ::testing::Test {
 protected:
  std::filesystem::path make(const std::string& name) {
    const std::filesystem::path run = folder_ / name;
    std::filesystem::create_directories(run);
    put_file(run / "config.toml", std::string("seed = \"7\"\nmodel = \"mlp\"\n"));
    put_file(run / "metrics.jsonl",
             std::string("{\"step\":50,\"loss\":1.5,\"accuracy\":0.5}\n"
                         "{\"step\":100,\"loss\":0.75,\"accuracy\":0.875}\n"));
    put_file(run / "summary.json",
             std::string("{\"test_accuracy\":0.8451,\"planned_peak_bytes\":1048576,"
                         "\"peak_rss_bytes\":524288,\"run_identity\":\"abc123\"}"));
    put_file(run / "evaluation.json",
             std::string("{\"accuracy\":0.8,\"class_names\":[\"Cat\",\"Dog\"],"
                         "\"confusion\":[[3,1],[0,1]],\"worst\":[{\"index\":4,\"label\":1,"
                         "\"guess\":0,\"loss\":2.5,\"probability\":0.9}]}"));
    put_file(run / "tensors.jsonl",
             std::string("{\"step\":0,\"tensors\":[{\"name\":\"conv1\",\"kind\":\"value\","
                         "\"written_by\":\"conv1\",\"bits\":7}]}\n"
                         "{\"step\":50,\"elements\":[10],\"exponent\":[-5],\"saturated\":[1],"
                         "\"mean_bits\":[3.5],\"largest_bits\":[7],\"re_executions\":[0],"
                         "\"mispredictions\":[0]}\n"));
    return run;
  }

  // tensors.jsonl with these histograms of one tensor, in steps 50, 100 ...
  void with_histograms(const std::filesystem::path& run, const std::vector<std::string>& counts) {
    std::string text =
        "{\"step\":0,\"tensors\":[{\"name\":\"conv1\",\"kind\":\"value\","
        "\"written_by\":\"conv1\",\"bits\":7}]}\n";
    for (size_t i = 0; i < counts.size(); ++i) {
      text += "{\"step\":" + std::to_string(50 * (i + 1)) +
              ",\"elements\":[10],\"exponent\":[-5],\"saturated\":[1],\"mean_bits\":[3.5],"
              "\"largest_bits\":[7],\"re_executions\":[0],\"mispredictions\":[0],"
              "\"bit_counts\":[" +
              counts[i] + "]}\n";
    }
    put_file(run / "tensors.jsonl", text);
  }

  std::string html(const std::vector<std::string>& names) {
    std::vector<std::string> folders;
    for (const std::string& name : names) folders.push_back((folder_ / name).string());
    const auto runs = read_runs(folders);
    EXPECT_TRUE(runs.ok()) << (runs.ok() ? "" : runs.error().message);
    if (!runs.ok()) return "";
    problems_.clear();
    for (const RunRecord& run : *runs) {
      problems_.insert(problems_.end(), run.problems.begin(), run.problems.end());
    }
    return report_html(*runs);
  }

  TestFolder folder_;
  std::vector<std::string> problems_;
};

TEST_F(Report, HasTheNumbersOfTheRun) {
  make("a");
  const std::string page = html({"a"});
  for (const char* part :
       {"84.51 %", "1.0 MiB", "512.0 KiB", "abc123", "Cat", "75.0 %", "50.0 %", "taken for <b>Cat",
        "loss 2.5", "\"y\":[1.5,0.75]", "\"values\":[[0.5]]", "\"values\":[[-5.0]]",
        "\"values\":[[0.1]]", "mantissa train --config"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_TRUE(problems_.empty());
  EXPECT_EQ(count(page, "<figure class=\"chart\">"), 2);
  EXPECT_EQ(count(page, "<figure class=\"heat\">"), 3);
}

TEST_F(Report, LoadsNothing) {
  make("a");
  const std::string page = html({"a"});
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("http:"), std::string::npos);
  EXPECT_EQ(page.find("https:"), std::string::npos);
  EXPECT_EQ(count(page, "src=\""), count(page, "src=\"data:image/png;base64,"));
}

TEST_F(Report, SeveralRunsShareTheirCharts) {
  make("a");
  make("b");
  put_file(folder_ / "b/config.toml", std::string("seed = \"8\"\nmodel = \"mlp\"\n"));
  const std::string page = html({"a", "b"});
  EXPECT_EQ(count(page, "<figure class=\"chart\">"), 2);
  EXPECT_GE(count(page, "class=\"curve run1\""), 2);
  EXPECT_NE(page.find("<th scope=\"row\">seed</th><td>7</td><td>8</td>"), std::string::npos);
}

TEST_F(Report, NothingFromAFileIsMarkup) {
  const auto run = make("<b>&'x");
  const std::string evil = "</script><script>alert(1)</script>";
  put_file(run / "config.toml", "model = '" + evil + "'\n");
  put_file(run / "evaluation.json", "{\"class_names\":[\"" + evil +
                                        "\"],\"confusion\":[[1]],\"worst\":[{\"index\":-5,"
                                        "\"label\":1e300,\"guess\":\"x\"},3]}");
  put_file(run / "tensors.jsonl",
           "{\"step\":0,\"tensors\":[{\"name\":\"" + evil +
               "\",\"kind\":\"value\",\"bits\":-3}]}\n"
               "{\"step\":50,\"elements\":[0],\"exponent\":[1e308],"
               "\"saturated\":[-1],\"mean_bits\":[1e308],\"largest_bits\":[-1e308],"
               "\"re_executions\":[1e308],\"mispredictions\":[1e308]}\n");
  const std::string page = html({"<b>&'x"});
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<b>&"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert"), std::string::npos);
}

// Numbers that no run writes: the type that they would be converted to does not hold them.
TEST_F(Report, AbsurdNumbersEndAFileOrAreShown) {
  const auto run = make("a");
  const std::string metrics = "{\"step\":50,\"loss\":1.5,\"accuracy\":0.5}\n";
  for (const char* step : {"1e300", "-1", "50", "\"50\"", "60.5", "9007199254740993", "null"}) {
    put_file(run / "metrics.jsonl",
             metrics + "{\"step\":" + step + ",\"loss\":0.75,\"accuracy\":0.875}\n");
    EXPECT_NE(html({"a"}).find("\"y\":[1.5]"), std::string::npos) << step;
    EXPECT_EQ(problems_.size(), 1U) << step;
    const auto described = describe(run);
    ASSERT_TRUE(described.ok());
    EXPECT_EQ((*described)["last_reported_step"], 50) << step;
  }
  put_file(
      run / "tensors.jsonl",
      std::string("{\"step\":0,\"tensors\":[{\"name\":\"conv1\",\"kind\":\"value\","
                  "\"written_by\":\"conv1\",\"bits\":7},{\"name\":\"conv2\",\"kind\":\"value\","
                  "\"written_by\":\"conv2\",\"bits\":7}]}\n"
                  "{\"step\":50,\"elements\":[10,10],\"exponent\":[-1.7e308,1.7e308],"
                  "\"saturated\":[1e308,1],\"mean_bits\":[1e308,-1e308],"
                  "\"largest_bits\":[7,7],\"re_executions\":[0,0],"
                  "\"mispredictions\":[0,0]}\n"));
  EXPECT_EQ(count(html({"a"}), "<figure class=\"heat\">"), 3);
}

TEST_F(Report, DamagedAndUnfinishedFilesLeaveTheRest) {
  const auto run = make("a");
  std::filesystem::remove(run / "summary.json");
  put_file(run / "evaluation.json", std::string("{\"accuracy\":"));
  put_file(run / "tensors.jsonl", std::string(1 << 20, '['));
  std::ofstream(run / "metrics.jsonl", std::ios::app) << "{\"step\":150,\"lo";
  const std::string page = html({"a"});
  EXPECT_NE(page.find("\"y\":[1.5,0.75]"), std::string::npos);
  EXPECT_NE(page.find("summary.json is missing"), std::string::npos);
  EXPECT_EQ(problems_.size(), 2u) << "an unfinished last line is none";

  put_file(run / "metrics.jsonl", std::string("{\"step\":50,\"loss\":1}\n\xff\n{\"step\":60}\n"));
  put_file(run / "config.toml", std::string("= ="));
  html({"a"});
  EXPECT_EQ(problems_.size(), 4u);
}

TEST_F(Report, RunsOfOneNameAreToldApartByTheirPaths) {
  const std::string a = make("one/run").string(), b = make("other/run").string();
  for (const std::vector<std::string>& folders :
       {std::vector{a, b}, std::vector{a + "/", b}, std::vector{a, b + "/"}}) {
    const auto runs = read_runs(folders);
    ASSERT_TRUE(runs.ok());
    EXPECT_EQ((*runs)[0].name, folders[0]);
    EXPECT_EQ((*runs)[1].name, folders[1]);
  }
}

TEST_F(Report, RefusesWhatIsNoRun) {
  EXPECT_FALSE(read_runs({}).ok());
  EXPECT_FALSE(read_runs({(folder_ / "none").string()}).ok());
  EXPECT_FALSE(read_runs({folder_.path().string()}).ok()) << "a folder with nothing of a run";
  make("a");
  EXPECT_FALSE(read_runs(std::vector<std::string>(7, (folder_ / "a").string())).ok());
}

TEST(Html, EscapesMarkupAndWhatIsNoText) {
  EXPECT_EQ(escaped("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  EXPECT_EQ(escaped("Kölsch"), "Kölsch");
  EXPECT_EQ(escaped(std::string("a\0b\x1b\xff\xc3", 6)), "a\uFFFDb\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(escaped("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD") << "a surrogate";
}

TEST(Html, PngUriIsBase64) {
  const auto uri = [](const std::string& text) {
    return png_uri(std::as_bytes(std::span(text)))
        .substr(std::string("data:image/png;base64,").size());
  };
  EXPECT_EQ(uri(""), "");
  EXPECT_EQ(uri("f"), "Zg==");
  EXPECT_EQ(uri("fo"), "Zm8=");
  EXPECT_EQ(uri("foobar"), "Zm9vYmFy");
}

// Ranges that a damaged file may hold must neither hang nor make axes without end.
TEST(LineChart, SurvivesAnyNumbers) {
  const double numbers[] = {0, 1, -1, 1e29, 1e300, -1e300, 1 + 1e-15, INFINITY, NAN, 5e-324};
  for (const double a : numbers) {
    for (const double b : numbers) {
      const Series series{{1, a}, {a, b}};
      const std::string svg = line_chart({"title", "unit"}, {{"run", 0, &series}});
      EXPECT_LT(count(svg, "<text"), 50);
      EXPECT_EQ(svg.find("nan"), std::string::npos) << a << " " << b;
    }
  }
}

// The labels of a chart's axes, without "step" and the unit.
std::vector<std::string> labels(const LineChart& chart, const Series& series) {
  const std::string svg = line_chart(chart, {{"run", 0, &series}});
  std::vector<std::string> texts;
  for (size_t at = svg.find("<text x"); at != std::string::npos; at = svg.find("<text x", at + 1)) {
    const size_t begin = svg.find('>', at) + 1;
    texts.push_back(svg.substr(begin, svg.find('<', begin) - begin));
  }
  texts.pop_back();
  return texts;
}

using Texts = std::vector<std::string>;

TEST(LineChart, OfAFewStepsHasWholeOnesAndMarks) {
  const LineChart loss{"title", "nats"};
  const Series one{{1}, {2.5}}, three{{1, 2, 3}, {2.5, 2, 1.5}};
  EXPECT_EQ(labels(loss, one), (Texts{"0", "1", "2", "0", "1", "2"}));
  EXPECT_EQ(labels(loss, three), (Texts{"0", "1", "2", "1", "2", "3"}));
  EXPECT_EQ(count(line_chart(loss, {{"run", 0, &one}}), "<circle class=\"mark run0\""), 1);
  EXPECT_EQ(count(line_chart(loss, {{"run", 0, &three}}), "<circle class=\"mark run0\""), 3);
  Series many;
  for (int step = 0; step < 100; ++step) {
    many.steps.push_back(step);
    many.values.push_back(step);
  }
  EXPECT_EQ(count(line_chart(loss, {{"run", 0, &many}}), "<circle"), 0);
}

TEST(LineChart, AxesFitWhatTheyShow) {
  // Fractions are parts of a whole, one value is not -50 % to 150 %.
  const LineChart accuracy{"title", "%", false, true}, clipped{"title", "%", true, true};
  EXPECT_EQ(labels(accuracy, {{1}, {0.125}}), (Texts{"8", "10", "12", "14", "16", "0", "1", "2"}));
  EXPECT_EQ(labels(accuracy, {{1, 50}, {0, 1}}),
            (Texts{"0", "20", "40", "60", "80", "100", "10", "20", "30", "40", "50"}));
  EXPECT_EQ(labels(clipped, {{1}, {0}}), (Texts{"0", "1", "2", "3", "4", "5", "0", "1", "2"}));
  // Labels of neighbours differ, and large numbers are written as elsewhere.
  EXPECT_EQ(labels({"title", "nats", false}, {{1, 2}, {2.302585, 2.302605}}),
            (Texts{"2.302585", "2.30259", "2.302595", "2.3026", "2.302605", "1", "2"}));
  EXPECT_EQ(labels({"title", "examples/s"}, {{1, 2}, {12000, 34000}}),
            (Texts{"0", "10,000", "20,000", "30,000", "1", "2"}));
}

TEST(LineChart, ThinningKeepsThePeaks) {
  Series series;
  for (int i = 0; i < 100000; ++i) {
    series.steps.push_back(i);
    series.values.push_back(i == 54321 ? 9.5 : 1);
  }
  const std::string svg = line_chart({"title", "unit"}, {{"run", 0, &series}});
  EXPECT_NE(svg.find("9.5"), std::string::npos);
  EXPECT_LT(svg.size(), 30000u);
}

TEST_F(Report, HasHistogramsOverTheSteps) {
  const auto run = make("a");
  EXPECT_EQ(html({"a"}).find("have how many bits"), std::string::npos);
  with_histograms(run, {"[6,1,3]", "[5,0,0,15]"});
  const std::string page = html({"a"});
  EXPECT_NE(page.find("Values: how many mantissas have how many bits"), std::string::npos);
  // From the longest down to the zeros. A length that a step does not list has no elements.
  EXPECT_NE(page.find("\"rows\":[\"3 bits\",\"2 bits\",\"1 bits\",\"0 bits\"]"), std::string::npos);
  EXPECT_NE(page.find("\"values\":[[0.0,0.75],[0.3,0.0],[0.1,0.0],[0.6,0.25]]"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
