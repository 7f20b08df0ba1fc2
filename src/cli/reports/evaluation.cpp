#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/reports/report.h"
#include "cli/terminal/picture.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

// A class's row and column of the confusion matrix, summed up.
struct ClassScore {
  int64_t examples = 0, guesses = 0, right = 0;
  double recall() const { return part(examples); }
  double precision() const { return part(guesses); }

 private:
  double part(int64_t all) const {
    return all > 0 ? static_cast<double>(right) / static_cast<double>(all) : NAN;
  }
};

std::vector<ClassScore> class_scores(const Evaluation& evaluation) {
  std::vector<ClassScore> scores(evaluation.confusion.size());
  for (size_t label = 0; label < scores.size(); ++label) {
    const std::vector<int64_t>& row = evaluation.confusion[label];
    for (size_t guess = 0; guess < row.size(); ++guess) {
      scores[label].examples += row[guess];
      scores[guess].guesses += row[guess];
    }
    if (label < row.size()) scores[label].right = row[label];
  }
  return scores;
}

// "3 Dress": the number stands above the matrix's columns.
std::string numbered_name(const Evaluation& evaluation, size_t index) {
  const std::string number = std::to_string(index);
  const std::string name = class_name(evaluation.class_names, static_cast<int>(index));
  return name == number ? number : number + " " + shortened(name, 20);
}

int name_width(const Evaluation& evaluation) {
  int width = 5;
  for (size_t i = 0; i < evaluation.confusion.size(); ++i) {
    width = std::max(width, columns(numbered_name(evaluation, i)));
  }
  return width + 2;
}

std::string class_table(const Evaluation& evaluation, const Terminal& terminal) {
  const int names = name_width(evaluation);
  std::string text =
      terminal.paint("2", pad_right("class", names) + "examples  precision    recall") + "\n";
  const std::vector<ClassScore> scores = class_scores(evaluation);
  for (size_t i = 0; i < scores.size(); ++i) {
    const double recall = scores[i].recall();
    std::string bar;
    for (int at = 0; at < std::lround(20 * (recall >= 0 ? recall : 0)); ++at) {
      bar += terminal.symbol("█", "#");
    }
    text += pad_right(numbered_name(evaluation, i), names) +
            pad_left(grouped(scores[i].examples), 8) +
            pad_left(percent(scores[i].precision(), 1), 11) + pad_left(percent(recall, 1), 10) +
            "  " + terminal.paint("36", bar) + "\n";
  }
  return text;
}

// How wide the matrix's cells are.
int cell_width(const Evaluation& evaluation) {
  int64_t largest = static_cast<int64_t>(evaluation.confusion.size());
  for (const auto& row : evaluation.confusion) {
    for (const int64_t count : row) largest = std::max(largest, count);
  }
  return static_cast<int>(std::to_string(largest).size()) + 2;
}

std::string confusion_matrix(const Evaluation& evaluation, const Terminal& terminal) {
  const int names = name_width(evaluation), cell = cell_width(evaluation);
  std::string head = pad_right("true \\ guess", names);
  for (size_t i = 0; i < evaluation.confusion.size(); ++i)
    head += pad_left(std::to_string(i), cell);
  std::string text = terminal.paint("2", head) + "\n";
  for (size_t label = 0; label < evaluation.confusion.size(); ++label) {
    text += pad_right(numbered_name(evaluation, label), names);
    const std::vector<int64_t>& row = evaluation.confusion[label];
    for (size_t guess = 0; guess < row.size(); ++guess) {
      const std::string_view none = terminal.symbol("·", ".");
      const auto count =
          pad_left(row[guess] ? std::to_string(row[guess]) : std::string(none), cell);
      text += terminal.paint(guess == label ? "1;32" : row[guess] ? "31" : "2", count);
    }
    text += "\n";
  }
  return text;
}

std::string frequent_confusions(const Evaluation& evaluation) {
  struct Confusion {
    int64_t count;
    int label, guess;
  };
  std::vector<Confusion> wrong;
  for (size_t label = 0; label < evaluation.confusion.size(); ++label) {
    for (size_t guess = 0; guess < evaluation.confusion[label].size(); ++guess) {
      const int64_t count = evaluation.confusion[label][guess];
      if (guess != label && count > 0) {
        wrong.push_back({count, static_cast<int>(label), static_cast<int>(guess)});
      }
    }
  }
  std::stable_sort(wrong.begin(), wrong.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  std::string text = "most frequent confusions\n";
  for (size_t i = 0; i < std::min<size_t>(wrong.size(), 10); ++i) {
    text += pad_left(grouped(wrong[i].count), 8) + "  " +
            class_name(evaluation.class_names, wrong[i].label) + " taken for " +
            class_name(evaluation.class_names, wrong[i].guess) + "\n";
  }
  return text;
}

// ", AUC 0.9712, average precision 0.8810", of two classes; of labels their F1; of pixels the mean
// intersection over union; of labels in an order how many are wrong.
std::string label_scores(const std::string& evaluation_json) {
  constexpr std::pair<const char*, const char*> kScores[] = {
      {"auc", "AUC"},
      {"average_precision", "average precision"},
      {"precision", "precision"},
      {"recall", "recall"},
      {"f1", "F1"},
      {"rank_mae", "rank error"},
      {"quadratic_kappa", "quadratic kappa"},
      {"micro_f1", "micro F1"},
      {"macro_f1", "macro F1"},
      {"mean_average_precision", "mean average precision"},
      {"mean_iou", "mean IoU"}};
  const auto json = nlohmann::json::parse(evaluation_json, nullptr, false);
  std::string text;
  const auto rate = json.find("label_error_rate");
  if (rate != json.end()) text += ", label error rate " + percent(rate->get<double>());
  for (const auto& [key, name] : kScores) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number()) continue;
    text += std::string(", ") + name + " " + decimal(found->get<double>(), 4);
  }
  return text;
}

// A line about predicted numbers; of several their means, and a line for each.
std::string number_report(const Evaluation& evaluation, bool tables, const Terminal& terminal) {
  std::string text = printable(evaluation.target) + ": R2 " +
                     terminal.paint("1", decimal(evaluation.r2, 4)) + ", RMSE " +
                     number_text(evaluation.rmse) + ", mean error " + number_text(evaluation.mae) +
                     ", loss " + decimal(evaluation.loss, 4) + ", " +
                     grouped(evaluation.examples) + " examples in " +
                     duration(evaluation.seconds) + "\n";
  if (!tables || evaluation.targets.size() < 2) return text;
  const auto line = [](const std::string& name, const std::string& r2, const std::string& rmse,
                       const std::string& mae) {
    return pad_right(name, 24) + pad_left(r2, 10) + pad_left(rmse, 14) + pad_left(mae, 14) + "\n";
  };
  text += "\n" + terminal.paint("2", line("target", "R2", "RMSE", "mean error"));
  for (const NumberEvaluation& one : evaluation.targets) {
    text += line(shortened(printable(one.target), 22), decimal(one.r2, 4), number_text(one.rmse),
                 number_text(one.mae));
  }
  return text;
}

// A line for each label.
std::string label_score_table(const Evaluation& evaluation, const Terminal& terminal) {
  const auto json = nlohmann::json::parse(evaluation.json, nullptr, false);
  const auto f1 = json.find("label_f1"), precision = json.find("label_average_precision"),
             accuracy = json.find("label_accuracy");
  if (f1 == json.end() || precision == json.end() || accuracy == json.end()) return "";
  const auto cell = [](const nlohmann::json& value) {
    return value.is_number() ? decimal(value.get<double>(), 4) : std::string("-");
  };
  std::string text = "\n" + terminal.paint("2", pad_right("label", 24) + pad_left("F1", 10) +
                                                    pad_left("avg. precision", 16) +
                                                    pad_left("accuracy", 10)) + "\n";
  for (size_t k = 0; k < evaluation.class_names.size() && k < f1->size(); ++k) {
    text += pad_right(shortened(printable(evaluation.class_names[k]), 22), 24) +
            pad_left(cell((*f1)[k]), 10) + pad_left(cell((*precision)[k]), 16) +
            pad_left(cell((*accuracy)[k]), 10) + "\n";
  }
  return text;
}

// " (4.9876 bits, 1.0502 per byte)", of models that go on with texts.
std::string other_bits(const Evaluation& evaluation) {
  if (evaluation.has_bytes || evaluation.bits_per_byte < 0) return "";
  return " (" + decimal(evaluation.bits_per_token, 4) + " bits, " +
         decimal(evaluation.bits_per_byte, 4) + " per byte)";
}

// The sum of the losses, then the report of each output behind its name.
std::string outputs_report(const Evaluation& evaluation, bool tables, const Terminal& terminal) {
  std::string text = "test loss " + decimal(evaluation.loss, 4) + " of " +
                     std::to_string(evaluation.outputs.size()) + " outputs, " +
                     grouped(evaluation.examples) + " examples in " +
                     duration(evaluation.seconds) + "\n";
  for (const Evaluation& output : evaluation.outputs) {
    const bool is_named = output.target == output.output;
    text += (tables ? "\n" : "") + (is_named ? "" : printable(output.output) + ": ") +
            evaluation_report(output, tables, terminal);
  }
  return text;
}

}  // namespace

std::string evaluation_report(const Evaluation& evaluation, bool tables, const Terminal& terminal) {
  if (!evaluation.outputs.empty()) return outputs_report(evaluation, tables, terminal);
  if (!evaluation.target.empty()) return number_report(evaluation, tables, terminal);
  if (evaluation.perplexity >= 0) {
    const std::string scores =
        evaluation.bleu >= 0 ? "BLEU " + terminal.paint("1", decimal(evaluation.bleu, 2)) +
                                   ", chrF " + decimal(evaluation.chrf, 2)
                             : terminal.paint("1", decimal(evaluation.bits_per_character, 4)) +
                                   " bits per " + (evaluation.has_bytes ? "byte" : "character");
    return "test " + scores + ", loss " + decimal(evaluation.loss, 4) + " per token" +
           other_bits(evaluation) + ", perplexity " + decimal(evaluation.perplexity, 3) +
           ", accuracy " + percent(evaluation.accuracy) + ", " + grouped(evaluation.examples) +
           " tokens in " + duration(evaluation.seconds) + "\n";
  }
  const bool top5 = evaluation.top5_accuracy >= 0;
  std::string text = "test accuracy " + terminal.paint("1", percent(evaluation.accuracy)) +
                     (top5 ? " (top 5 " + percent(evaluation.top5_accuracy) + ")" : "") +
                     label_scores(evaluation.json) + ", loss " + decimal(evaluation.loss, 4) +
                     ", " + grouped(evaluation.examples) + " examples in " +
                     duration(evaluation.seconds) + "\n";
  if (tables) text += label_score_table(evaluation, terminal);
  if (!tables || evaluation.confusion.empty()) return text;
  text += "\n" + class_table(evaluation, terminal) + "\n";
  const int classes = static_cast<int>(evaluation.confusion.size());
  const bool fits = name_width(evaluation) + classes * cell_width(evaluation) <= terminal.width();
  return text + (fits ? confusion_matrix(evaluation, terminal) : frequent_confusions(evaluation));
}

}  // namespace mantissa::cli
