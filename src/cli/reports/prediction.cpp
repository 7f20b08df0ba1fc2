#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/reports/report.h"
#include "cli/terminal/picture.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

using Json = nlohmann::ordered_json;

// The most probable classes, at most `count`; of equals the first.
std::vector<int> best_classes(const Prediction& prediction, size_t count) {
  std::vector<int> classes(prediction.probabilities.size());
  std::iota(classes.begin(), classes.end(), 0);
  std::stable_sort(classes.begin(), classes.end(), [&prediction](int a, int b) {
    return prediction.probabilities[a] > prediction.probabilities[b];
  });
  classes.resize(std::min(classes.size(), count));
  return classes;
}

// One row: source, truth, mark, three guesses.
std::vector<std::string> table_row(const Predictions& predictions, const Prediction& prediction,
                                   const Terminal& terminal) {
  const bool known = prediction.label >= 0;
  std::vector<std::string> row = {
      shortened_path(printable(prediction.source), 40),
      known ? shortened(class_name(predictions.class_names, prediction.label), 20) : "",
      !known                                 ? std::string()
      : prediction.label == prediction.guess ? std::string(terminal.symbol("✓", "ok"))
                                             : std::string(terminal.symbol("✗", "no"))};
  for (const int index : best_classes(prediction, 3)) {
    row.push_back(shortened(class_name(predictions.class_names, index), 20) + " " +
                  percent(prediction.probabilities[index], 1));
  }
  row.resize(6);
  return row;
}

// The same of numbers: source, truth, prediction.
std::string number_table(const Predictions& predictions, const Terminal& terminal) {
  const auto line = [](const std::string& source, const std::string& truth,
                       const std::string& number) {
    return pad_right(source, 28) + pad_left(truth, 14) + pad_left(number, 14);
  };
  std::string text =
      terminal.paint("2", line("example", "truth", shortened(printable(predictions.target), 13))) +
      "\n";
  for (const Prediction& one : predictions.predictions) {
    text += line(shortened_path(printable(one.source), 26),
                 one.truth ? number_text(*one.truth) : "", number_text(one.number)) +
            "\n";
  }
  return text;
}

}  // namespace

std::string prediction_table(const Predictions& predictions, const Terminal& terminal) {
  if (!predictions.target.empty()) return number_table(predictions, terminal);
  std::vector<std::vector<std::string>> rows = {{"example", "truth", "", "guess", "or", "or"}};
  for (const Prediction& prediction : predictions.predictions) {
    rows.push_back(table_row(predictions, prediction, terminal));
  }
  std::vector<int> widths(rows[0].size());
  for (size_t i = 0; i < widths.size(); ++i) {
    // A column with nothing in it but its head (no truth is known) goes.
    for (size_t r = 1; r < rows.size(); ++r) widths[i] = std::max(widths[i], columns(rows[r][i]));
    if (widths[i] > 0) widths[i] = std::max(widths[i], columns(rows[0][i])) + 2;
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    const bool wrong = rows[r][2] == terminal.symbol("✗", "no");
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] == 0) continue;
      const std::string cell = pad_right(rows[r][i], widths[i]);
      line += i == 2 ? terminal.paint(wrong ? "31" : "32", cell) : cell;
    }
    line.resize(line.find_last_not_of(' ') + 1);
    text += (r == 0 ? terminal.paint("2", line) : line) + "\n";
  }
  return text;
}

std::string prediction_json(const Predictions& predictions) {
  Json json;
  if (predictions.target.empty()) json["class_names"] = predictions.class_names;
  json["predictions"] = Json::array();
  for (const Prediction& prediction : predictions.predictions) {
    Json entry;
    entry["source"] = prediction.source;
    if (!predictions.target.empty()) {
      entry["truth"] = prediction.truth ? Json(*prediction.truth) : Json();
      entry[predictions.target] = prediction.number;
      json["predictions"].push_back(std::move(entry));
      continue;
    }
    entry["label"] = prediction.label >= 0 ? Json(prediction.label) : Json();
    entry["guess"] = prediction.guess;
    entry["guess_name"] = class_name(predictions.class_names, prediction.guess);
    entry["probabilities"] = prediction.probabilities;
    if (prediction.height > 0) {
      entry["height"] = prediction.height;
      entry["width"] = prediction.width;
      entry["channels"] = prediction.channels;
    }
    json["predictions"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mantissa::cli
