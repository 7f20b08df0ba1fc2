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

// "sport, news": names of labels; "-" for none.
std::string label_names(const Predictions& predictions, const std::vector<int>& labels) {
  std::string names;
  for (const int label : labels) {
    names += (names.empty() ? "" : ", ") + class_name(predictions.class_names, label);
  }
  return names.empty() ? "-" : shortened(names, 40);
}

std::vector<int> true_labels(const Prediction& prediction) {
  std::vector<int> labels;
  for (size_t k = 0; k < prediction.true_labels.size(); ++k) {
    if (prediction.true_labels[k] == 1) labels.push_back(static_cast<int>(k));
  }
  return labels;
}

// Labels that go together: source, true labels, guessed ones.
std::string label_table(const Predictions& predictions, const Terminal& terminal) {
  const auto line = [](const std::string& source, const std::string& truth,
                       const std::string& guess) {
    return pad_right(source, 28) + pad_right(truth, 42) + guess;
  };
  std::string text = terminal.paint("2", line("example", "truth", "labels")) + "\n";
  for (const Prediction& one : predictions.predictions) {
    text += line(shortened_path(printable(one.source), 26),
                 one.true_labels.empty() ? "" : label_names(predictions, true_labels(one)),
                 label_names(predictions, one.labels)) +
            "\n";
  }
  return text;
}

// Labels in an order: source, true labels, found ones.
std::string sequence_table(const Predictions& predictions, const Terminal& terminal) {
  const auto text_of = [](const std::vector<int>& labels) {
    std::string text;
    for (const int label : labels) text += (text.empty() ? "" : " ") + std::to_string(label);
    return text.empty() ? "(none)" : text;
  };
  const auto line = [](const std::string& source, const std::string& truth,
                       const std::string& labels) {
    return pad_right(source, 28) + pad_right(truth, 42) + labels;
  };
  std::string text = terminal.paint("2", line("example", "truth", "labels")) + "\n";
  for (const Prediction& one : predictions.predictions) {
    text +=
        line(shortened_path(printable(one.source), 26),
             one.knows_order ? shortened(text_of(one.true_labels), 40) : "", text_of(one.labels)) +
        "\n";
  }
  return text;
}

// If several numbers are predicted: the source, then the prediction and the truth of each.
std::string numbers_table(const Predictions& predictions, const Terminal& terminal) {
  std::string head = pad_right("example", 28);
  for (const std::string& name : predictions.targets) {
    head += pad_left(shortened(printable(name), 13), 14) + pad_left("truth", 14);
  }
  std::string text = terminal.paint("2", head) + "\n";
  for (const Prediction& one : predictions.predictions) {
    text += pad_right(shortened_path(printable(one.source), 26), 28);
    for (size_t k = 0; k < one.numbers.size(); ++k) {
      text += pad_left(number_text(one.numbers[k]), 14) +
              pad_left(one.truths.empty() ? "" : number_text(one.truths[k]), 14);
    }
    text += "\n";
  }
  return text;
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

// The name of a class; "" of one that is not known.
std::string known_class(const Predictions& output, int index) {
  return index < 0 ? "" : class_name(output.class_names, index);
}

// The truth and the guess of one of several outputs, for each of its numbers if it predicts these.
std::vector<std::string> output_cells(const Predictions& output, const Prediction& one) {
  if (output.several_labels) {
    return {one.true_labels.empty() ? "" : label_names(output, true_labels(one)),
            label_names(output, one.labels)};
  }
  if (output.target.empty()) {
    return {known_class(output, one.label), known_class(output, one.guess)};
  }
  std::vector<std::string> cells;
  for (size_t k = 0; k < one.numbers.size(); ++k) {
    cells.push_back(one.truths.empty() ? "" : number_text(one.truths[k]));
    cells.push_back(number_text(one.numbers[k]));
  }
  return cells;
}

// The source, then of each output the truth and the guess.
std::string outputs_table(const Predictions& predictions, const Terminal& terminal) {
  constexpr int kWidth = 16;
  const auto line = [](const std::string& source, const std::vector<std::string>& cells) {
    std::string text = pad_right(source, 28);
    for (const std::string& cell : cells) text += pad_left(shortened(cell, kWidth - 2), kWidth);
    return text;
  };
  std::vector<std::string> heads;
  for (const Predictions& output : predictions.outputs) {
    const std::vector<std::string> one = {output.output};
    for (const std::string& name : output.target.empty() ? one : output.targets) {
      heads.emplace_back("truth");
      heads.push_back(printable(name));
    }
  }
  std::string text = terminal.paint("2", line("example", heads)) + "\n";
  for (const Prediction& one : predictions.predictions) {
    std::vector<std::string> cells;
    for (size_t k = 0; k < predictions.outputs.size(); ++k) {
      for (std::string& cell : output_cells(predictions.outputs[k], one.outputs[k])) {
        cells.push_back(std::move(cell));
      }
    }
    text += line(shortened_path(printable(one.source), 26), cells) + "\n";
  }
  return text;
}

}  // namespace

std::string prediction_table(const Predictions& predictions, const Terminal& terminal) {
  if (!predictions.outputs.empty()) return outputs_table(predictions, terminal);
  if (predictions.targets.size() > 1) return numbers_table(predictions, terminal);
  if (!predictions.target.empty()) return number_table(predictions, terminal);
  if (predictions.labels_in_order) return sequence_table(predictions, terminal);
  if (predictions.several_labels) return label_table(predictions, terminal);
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

namespace {

// Adds an example's prediction to its entry.
void add_results(const Predictions& predictions, const Prediction& prediction, Json& entry) {
  if (!predictions.target.empty()) {
    if (predictions.targets.size() > 1) {
      entry["truth"] = prediction.truths.empty() ? Json() : Json(prediction.truths);
      for (size_t k = 0; k < predictions.targets.size(); ++k) {
        entry[predictions.targets[k]] = prediction.numbers[k];
      }
    } else {
      entry["truth"] = prediction.truth ? Json(*prediction.truth) : Json();
      entry[predictions.target] = prediction.number;
    }
    return;
  }
  if (predictions.labels_in_order) {
    entry["truth"] = prediction.knows_order ? Json(prediction.true_labels) : Json();
    entry["labels"] = prediction.labels;
    return;
  }
  entry["label"] = prediction.label >= 0 ? Json(prediction.label) : Json();
  entry["guess"] = prediction.guess;
  entry["guess_name"] = class_name(predictions.class_names, prediction.guess);
  entry["probabilities"] = prediction.probabilities;
  if (predictions.several_labels) {
    entry["truth"] = prediction.true_labels.empty() ? Json() : Json(prediction.true_labels);
  }
  if (predictions.has_labels) {
    Json& labels = entry["labels"] = Json::array();
    for (const int one : prediction.labels) {
      labels.push_back(class_name(predictions.class_names, one));
    }
  }
  if (prediction.height > 0) {
    entry["height"] = prediction.height;
    entry["width"] = prediction.width;
    entry["channels"] = prediction.channels;
  }
}

}  // namespace

std::string prediction_json(const Predictions& predictions) {
  Json json;
  const bool has_several = !predictions.outputs.empty();
  for (const Predictions& output : predictions.outputs) {
    if (output.target.empty()) json["class_names"][output.output] = output.class_names;
  }
  if (!has_several && predictions.target.empty()) json["class_names"] = predictions.class_names;
  json["predictions"] = Json::array();
  for (const Prediction& prediction : predictions.predictions) {
    Json entry;
    entry["source"] = prediction.source;
    if (!has_several) add_results(predictions, prediction, entry);
    for (size_t k = 0; k < predictions.outputs.size(); ++k) {
      const Predictions& output = predictions.outputs[k];
      add_results(output, prediction.outputs[k], entry[output.output]);
    }
    json["predictions"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mantissa::cli
