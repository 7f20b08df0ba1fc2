#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/reports/report.h"
#include "cli/terminal/table.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostBars = 15;
constexpr int kWithBars = 72;  // columns of a terminal; in narrower ones names matter more

// JSON has null in place of numbers that are not finite.
double number_or_nan(const Json& tensor, const char* key) {
  return tensor[key].is_number() ? tensor[key].get<double>() : NAN;
}

// Counts by bit length, zeros left out, as bars relative to the highest: the lengths of narrow
// mantissas, of wide ones several to a bar.
std::string bars(const Json& counts, int bits, const Terminal& terminal) {
  constexpr std::array kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array kSigns = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
  const size_t columns = std::min<size_t>(kMostBars, static_cast<size_t>(bits));
  std::vector<int64_t> sums(columns, 0);
  for (size_t length = 1; length < counts.size(); ++length) {
    const size_t bar = (length - 1) * columns / static_cast<size_t>(bits);
    sums[std::min(bar, columns - 1)] += counts[length].get<int64_t>();
  }
  const int64_t highest = *std::max_element(sums.begin(), sums.end());
  std::string text;
  for (const int64_t sum : sums) {
    const auto level = highest == 0 ? 0
                                    : static_cast<size_t>(std::ceil(8 * static_cast<double>(sum) /
                                                                    static_cast<double>(highest)));
    text += terminal.symbol(kBlocks[level], kSigns[level]);
  }
  return text;
}

std::string zeros(const Json& counts) {
  double all = 0;
  for (const Json& count : counts) all += count.get<double>();
  return all > 0 ? percent(counts[0].get<double>() / all, 0) : "-";
}

std::string exponent_text(const Json& tensor) {
  const std::string least = decimal(number_or_nan(tensor, "smallest_exponent"), 0);
  const std::string most = decimal(number_or_nan(tensor, "largest_exponent"), 0);
  return least == most ? least : least + ".." + most;
}

std::string kind_table(const Json& tensors, const std::string& kind, bool histograms,
                       const Terminal& terminal) {
  std::vector<Column> columns = {{"tensor", Align::kTextCutAtStart}, {"bits", Align::kNumber},
                                 {"exponent", Align::kNumber},       {"clipped", Align::kNumber},
                                 {"again", Align::kNumber},          {"use", Align::kNumber}};
  if (histograms) {
    columns.push_back({"zeros", Align::kNumber});
    columns.push_back({"1 .. most bits"});
  }
  Table table(columns);
  bool any = false;
  for (const Json& tensor : tensors) {
    if (tensor["kind"] != kind) continue;
    any = true;
    const double clipped = number_or_nan(tensor, "clipped");
    std::vector<std::string> cells = {printable(tensor["name"].get<std::string>()),
                                      tensor["bits"].dump(),
                                      exponent_text(tensor),
                                      clipped == 0 ? "0" : percent(clipped, 3),
                                      decimal(number_or_nan(tensor, "repeated"), 2),
                                      percent(number_or_nan(tensor, "bit_use"), 0)};
    if (histograms) {
      const Json counts = tensor.value("bit_counts", Json::array());
      cells.push_back(counts.empty() ? "-" : zeros(counts));
      cells.push_back(bars(counts, tensor["bits"].get<int>(), terminal));
    }
    table.add(std::move(cells));
  }
  return any ? table.text(terminal.width(), terminal) : "";
}

std::string advice_text(const Json& tensors, const Terminal& terminal) {
  std::string text;
  for (const Json& tensor : tensors) {
    for (const Json& line : tensor["advice"]) {
      text +=
          wrapped(printable(tensor["name"].get<std::string>()) + " (" +
                      printable(tensor["kind"].get<std::string>()) + ") " + line.get<std::string>(),
                  terminal.width()) +
          "\n";
    }
  }
  return text;
}

}  // namespace

std::string statistics_line(const std::string& statistics) {
  const Json json = Json::parse(statistics);
  size_t advice = 0;
  for (const Json& tensor : json["tensors"]) advice += tensor["advice"].size();
  return printable(json["run"].get<std::string>()) + ", " +
         printable(json["format"].get<std::string>()) + ": " +
         grouped(json["observed_steps"].get<int64_t>()) + " steps observed, up to " +
         grouped(number_or_nan(json, "last_step")) + "; " +
         (advice == 0 ? "nothing" : grouped(static_cast<int64_t>(advice))) + " worth a look";
}

std::string statistics_report(const std::string& statistics, const Terminal& terminal) {
  const Json json = Json::parse(statistics);
  const Json& tensors = json["tensors"];
  const bool counted = json["histogram_step"].is_number(), wide = terminal.width() >= kWithBars;
  std::string text = wrapped(statistics_line(statistics), terminal.width()) + "\n";
  const std::array<std::array<const char*, 2>, 4> kinds = {
      {{"value", "Values"},
       {"gradient", "Gradients of values"},
       {"parameter", "Parameters"},
       {"parameter gradient", "Gradients of parameters"}}};
  for (const auto& [kind, title] : kinds) {
    const std::string table = kind_table(tensors, kind, counted && wide, terminal);
    if (!table.empty()) text += "\n" + terminal.paint("1", title) + "\n" + table;
  }
  const std::string advice = advice_text(tensors, terminal);
  if (!advice.empty()) text += "\n" + terminal.paint("1", "Worth a look") + "\n" + advice;
  if (!counted) {
    text += "\nTrain with --statistics to see how the mantissas are distributed.\n";
  } else if (json["histogram_step"] != json["last_step"]) {
    text += "\nBars and zeros are those of step " + grouped(json["histogram_step"].get<double>()) +
            ".\n";
  }
  return text;
}

}  // namespace mantissa::cli
