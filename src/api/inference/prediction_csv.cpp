#include "api/inference/prediction_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

#include "base/real_text.h"

namespace mantissa {
namespace {

// Whether spreadsheets would compute a text as a formula. Numbers are no formulas.
bool is_formula(const std::string& text) {
  constexpr std::array<std::string_view, 10> kBegins = {
      "=",           "+", "-", "@", "\t", "\r", "\xEF\xBC\x9D", "\xEF\xBC\x8B", "\xEF\xBC\x8D",
      "\xEF\xBC\xA0"};
  const bool begins = std::any_of(kBegins.begin(), kBegins.end(),
                                  [&](std::string_view begin) { return text.starts_with(begin); });
  if (!begins || text.size() < 2) return false;
  double number = 0;
  const char* const first = text.data() + (text[0] == '+' ? 1 : 0);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(first, end, number);
  return stop != end || error != std::errc();
}

// Quoted if a comma, quote or line break would be misread. An apostrophe keeps spreadsheets from
// computing it.
std::string field(const std::string& plain) {
  const std::string text = (is_formula(plain) ? "'" : "") + plain;
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string name_of(const Predictions& predictions, int index) {
  const bool known = index >= 0 && static_cast<size_t>(index) < predictions.class_names.size();
  return known ? predictions.class_names[static_cast<size_t>(index)] : "";
}

// If several numbers are predicted: the truth and the prediction of each.
std::string numbers_csv(const Predictions& predictions) {
  std::string csv = "source";
  for (const std::string& name : predictions.targets) {
    csv += "," + field("truth of " + name) + "," + field(name);
  }
  csv += "\n";
  for (const Prediction& one : predictions.predictions) {
    csv += field(one.source);
    for (size_t k = 0; k < one.numbers.size(); ++k) {
      csv += "," + (one.truths.empty() ? "" : real_text(one.truths[k])) + "," +
             real_text(one.numbers[k]);
    }
    csv += "\n";
  }
  return csv;
}

std::string number_csv(const Predictions& predictions) {
  if (predictions.targets.size() > 1) return numbers_csv(predictions);
  std::string csv = "source,truth," + field(predictions.target) + "\n";
  for (const Prediction& one : predictions.predictions) {
    csv += field(one.source) + "," + (one.truth ? real_text(*one.truth) : "") + "," +
           real_text(one.number) + "\n";
  }
  return csv;
}

// "sport;news": names of labels.
std::string names_of(const Predictions& predictions, const std::vector<int>& labels) {
  std::string names;
  for (const int label : labels) names += (names.empty() ? "" : ";") + name_of(predictions, label);
  return names;
}

std::vector<int> true_labels(const Prediction& one) {
  std::vector<int> labels;
  for (size_t k = 0; k < one.true_labels.size(); ++k) {
    if (one.true_labels[k] == 1) labels.push_back(static_cast<int>(k));
  }
  return labels;
}

// Labels that go together: the true ones, if they are known, and those that are guessed.
std::string labels_csv(const Predictions& predictions) {
  std::string csv = "source,truth,labels";
  for (const std::string& name : predictions.class_names) csv += "," + field(name);
  csv += "\n";
  for (const Prediction& one : predictions.predictions) {
    csv += field(one.source) + "," + field(names_of(predictions, true_labels(one))) + "," +
           field(names_of(predictions, one.labels));
    for (const double probability : one.probabilities) csv += "," + real_text(probability);
    csv += "\n";
  }
  return csv;
}

// "3 1 1": classes in their order.
std::string order_of(const std::vector<int>& labels) {
  std::string text;
  for (const int label : labels) text += (text.empty() ? "" : " ") + std::to_string(label);
  return text;
}

std::string sequence_csv(const Predictions& predictions) {
  std::string csv = "source,truth,labels\n";
  for (const Prediction& one : predictions.predictions) {
    csv += field(one.source) + "," + order_of(one.true_labels) + "," + order_of(one.labels) + "\n";
  }
  return csv;
}

std::string label_csv(const Predictions& predictions) {
  std::string csv = "source,label,label_name,guess,guess_name,probability,labels";
  for (const std::string& name : predictions.class_names) csv += "," + field(name);
  csv += "\n";
  for (const Prediction& one : predictions.predictions) {
    csv += field(one.source) + "," + (one.label >= 0 ? std::to_string(one.label) : "") + "," +
           field(name_of(predictions, one.label)) + "," + std::to_string(one.guess) + "," +
           field(name_of(predictions, one.guess)) + "," +
           real_text(one.probabilities[static_cast<size_t>(one.guess)]) + "," +
           field(names_of(predictions, one.labels));
    for (const double probability : one.probabilities) csv += "," + real_text(probability);
    csv += "\n";
  }
  return csv;
}

// The columns of one of several outputs, with a comma before each.
std::string output_head(const Predictions& output) {
  std::string head;
  for (const std::string& name : output.targets) {
    head += "," + field("truth of " + name) + "," + field(name);
  }
  if (!output.targets.empty()) return head;
  const bool has_one_class = !output.several_labels;
  head = "," + field("truth of " + output.output) + "," + field(output.output);
  if (has_one_class) head += "," + field("probability of " + output.output);
  for (const std::string& name : output.class_names) {
    head += "," + field(output.output + "=" + name);
  }
  return head;
}

std::string output_fields(const Predictions& output, const Prediction& one) {
  std::string fields;
  for (size_t k = 0; k < output.targets.size(); ++k) {
    fields += "," + (one.truths.empty() ? "" : real_text(one.truths[k])) + "," +
              real_text(one.numbers[k]);
  }
  if (!output.targets.empty()) return fields;
  if (output.several_labels) {
    fields = "," + field(names_of(output, true_labels(one))) + "," +
             field(names_of(output, one.labels));
  } else {
    fields = "," + field(name_of(output, one.label)) + "," + field(name_of(output, one.guess)) +
             "," + real_text(one.probabilities[static_cast<size_t>(one.guess)]);
  }
  for (const double probability : one.probabilities) fields += "," + real_text(probability);
  return fields;
}

std::string outputs_csv(const Predictions& predictions) {
  std::string csv = "source";
  for (const Predictions& output : predictions.outputs) csv += output_head(output);
  csv += "\n";
  for (const Prediction& one : predictions.predictions) {
    csv += field(one.source);
    for (size_t k = 0; k < predictions.outputs.size(); ++k) {
      csv += output_fields(predictions.outputs[k], one.outputs[k]);
    }
    csv += "\n";
  }
  return csv;
}

}  // namespace

std::string prediction_csv(const Predictions& predictions) {
  if (!predictions.outputs.empty()) return outputs_csv(predictions);
  if (!predictions.target.empty()) return number_csv(predictions);
  if (predictions.labels_in_order) return sequence_csv(predictions);
  if (predictions.has_labels) {
    return predictions.several_labels ? labels_csv(predictions) : label_csv(predictions);
  }
  std::string csv = "source,label,label_name,guess,guess_name,probability";
  for (const std::string& name : predictions.class_names) csv += "," + field(name);
  csv += "\n";
  for (const Prediction& prediction : predictions.predictions) {
    const bool labelled = prediction.label >= 0;
    csv += field(prediction.source) + "," +
           (labelled ? std::to_string(prediction.label) : std::string()) + "," +
           field(name_of(predictions, prediction.label)) + "," + std::to_string(prediction.guess) +
           "," + field(name_of(predictions, prediction.guess)) + "," +
           real_text(prediction.probabilities[static_cast<size_t>(prediction.guess)]);
    for (const double probability : prediction.probabilities) csv += "," + real_text(probability);
    csv += "\n";
  }
  return csv;
}

}  // namespace mantissa
