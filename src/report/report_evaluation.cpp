#include <algorithm>
#include <cmath>

#include "data/datasets/dataset.h"
#include "formats/pictures/png.h"
#include "infer/tasks/evaluation.h"
#include "report/html.h"
#include "report/report.h"

namespace mantissa {
namespace {

using Json = nlohmann::json;
using Matrix = std::vector<std::vector<int64_t>>;

constexpr size_t kMostClassesInTable = 30;
constexpr int64_t kMostClasses = 4096;

// The square of counts that a good file has; empty for anything else.
Matrix confusion_of(const Json& evaluation) {
  const auto found = evaluation.find("confusion");
  if (found == evaluation.end() || !found->is_array()) return {};
  Matrix matrix;
  for (const Json& row : *found) {
    if (!row.is_array() || row.size() != found->size() || row.size() > kMostClasses) return {};
    matrix.emplace_back();
    for (const Json& count : row) {
      if (!count.is_number_unsigned() || count.get<uint64_t>() > (uint64_t{1} << 40)) return {};
      matrix.back().push_back(count.get<int64_t>());
    }
  }
  return matrix;
}

std::string class_name(const Json& evaluation, int64_t index) {
  const auto names = evaluation.find("class_names");
  const bool known = names != evaluation.end() && names->is_array() && index >= 0 &&
                     index < static_cast<int64_t>(names->size()) &&
                     (*names)[static_cast<size_t>(index)].is_string();
  return known ? (*names)[static_cast<size_t>(index)].get<std::string>() : std::to_string(index);
}

// Rows are true classes; the darker, the larger the part of the row.
std::string confusion_table(const Json& evaluation, const Matrix& confusion) {
  std::vector<std::string> head = {"true \\ guess"};
  std::vector<std::vector<std::string>> rows;
  const std::vector<ClassCounts> counts = class_counts(confusion);
  for (size_t label = 0; label < confusion.size(); ++label) {
    head.push_back(std::to_string(label));
    std::vector<std::string> row = {std::to_string(label) + " " +
                                    escaped(class_name(evaluation, static_cast<int64_t>(label)))};
    for (const int64_t count : confusion[label]) {
      const double part = static_cast<double>(count) /
                          static_cast<double>(std::max<int64_t>(1, counts[label].examples));
      row.push_back(count == 0 ? "<span class=\"dim\">·</span>"
                               : "<span style=\"display:block;margin:-3px -7px;padding:3px 7px;"
                                 "background:rgb(var(--hit)/" +
                                     number_text(0.04 + 0.5 * part) + ")\">" +
                                     std::to_string(count) + "</span>");
    }
    const ClassScore score = score_of(counts[label]);
    row.push_back(percent_text(score.precision, 1));
    row.push_back(percent_text(score.recall, 1));
    rows.push_back(std::move(row));
  }
  head.insert(head.end(), {"precision", "recall"});
  return "<h3>Confusion matrix</h3>\n" + table(head, rows, "confusion");
}

std::string frequent_confusions(const Json& evaluation, const Matrix& confusion) {
  struct Confusion {
    int64_t count;
    size_t label, guess;
  };
  std::vector<Confusion> wrong;
  for (size_t label = 0; label < confusion.size(); ++label) {
    for (size_t guess = 0; guess < confusion.size(); ++guess) {
      if (label != guess && confusion[label][guess] > 0) {
        wrong.push_back({confusion[label][guess], label, guess});
      }
    }
  }
  std::stable_sort(wrong.begin(), wrong.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min<size_t>(20, wrong.size()); ++i) {
    rows.push_back({std::to_string(wrong[i].count),
                    escaped(class_name(evaluation, static_cast<int64_t>(wrong[i].label))),
                    escaped(class_name(evaluation, static_cast<int64_t>(wrong[i].guess)))});
  }
  return "<h3>Most frequent confusions</h3>\n" + table({"examples", "true class", "guess"}, rows);
}

// The picture of an example, if it has one and is the one of that label.
std::string picture(const ExampleSet& test, int64_t index, int64_t label) {
  const PictureForm form = test.picture_form();
  if (form == PictureForm{} || index < 0 || index >= test.count) return "";
  if (test.labels()[static_cast<size_t>(index)] != label) return "";
  const auto first = test.pixels().begin() + index * form.bytes();
  const auto png = encode_png(
      {form.height, form.width, form.channels, std::vector<uint8_t>(first, first + form.bytes())});
  if (!png.ok()) return "";
  return "<img alt=\"test example " + std::to_string(index) + "\" src=\"" + png_uri(*png) +
         "\"/>\n";
}

std::string worst_predictions(const RunRecord& run) {
  const auto worst = run.evaluation.find("worst");
  if (worst == run.evaluation.end() || !worst->is_array() || worst->empty()) return "";
  // The data set may have gone, or be another by now.
  const std::string source = text_of(run.evaluation, "data");
  const Result<Dataset> data = source.empty() ? Dataset() : load_dataset(source, false, true);
  std::string html;
  for (size_t i = 0; i < std::min<size_t>(kWorstPredictions, worst->size()); ++i) {
    const Json& one = (*worst)[i];
    if (!one.is_object()) continue;
    const auto whole = [&one](const char* key) {
      return static_cast<int64_t>(std::clamp(number_of(one, key, -1), -1.0, 1e12));
    };
    html += "<figure>" + (data.ok() ? picture(data->test, whole("index"), whole("label")) : "") +
            "<figcaption>" + escaped(class_name(run.evaluation, whole("label"))) +
            ", taken for <b>" + escaped(class_name(run.evaluation, whole("guess"))) + "</b> " +
            percent_text(number_of(one, "probability", NAN), 1) + "<br/><span class=\"dim\">loss " +
            number_text(number_of(one, "loss", NAN), 3) + ", test " +
            std::to_string(whole("index")) + "</span></figcaption></figure>\n";
  }
  return "<h3>Worst predictions</h3>\n" +
         (data.ok()
              ? ""
              : "<p class=\"dim\">Without pictures: " + escaped(data.error().message) + "</p>\n") +
         "<div class=\"pictures\">\n" + html + "</div>\n";
}

// The scores of a network, or of one of its outputs.
std::string scores_of(const Json& evaluation) {
  std::string html;
  const double accuracy = number_of(evaluation, "accuracy", NAN);
  if (std::isfinite(accuracy)) {
    html = "<p>Accuracy " + percent_text(accuracy);
    const double top5 = number_of(evaluation, "top5_accuracy", NAN);
    if (std::isfinite(top5)) html += ", top 5 " + percent_text(top5);
    html += ", loss " + number_text(number_of(evaluation, "loss", NAN)) + ", " +
            grouped_text(number_of(evaluation, "examples", NAN)) + " examples.</p>\n";
  }
  const double r2 = number_of(evaluation, "r2", NAN);
  if (std::isfinite(r2)) {
    html = "<p>" + escaped(text_of(evaluation, "target")) + ": R2 " + number_text(r2, 4) +
           ", RMSE " + number_text(number_of(evaluation, "rmse", NAN)) + ", " +
           grouped_text(number_of(evaluation, "examples", NAN)) + " examples.</p>\n";
  }
  const Matrix confusion = confusion_of(evaluation);
  if (!confusion.empty()) {
    html += confusion.size() <= kMostClassesInTable
                ? confusion_table(evaluation, confusion)
                : frequent_confusions(evaluation, confusion);
  }
  return html;
}

}  // namespace

std::string evaluation_section(const RunRecord& run) {
  const auto outputs = run.evaluation.find("outputs");
  if (outputs == run.evaluation.end() || !outputs->is_object()) {
    return scores_of(run.evaluation) + worst_predictions(run);
  }
  std::string html = "<p>The sum of the losses is " +
                     number_text(number_of(run.evaluation, "loss", NAN)) + ", of " +
                     grouped_text(number_of(run.evaluation, "examples", NAN)) +
                     " examples.</p>\n";
  for (const auto& [name, output] : outputs->items()) {
    Json one = output.is_object() ? output : Json::object();
    one["examples"] = number_of(run.evaluation, "examples", NAN);
    html += "<h3>" + escaped(name) + "</h3>\n" + scores_of(one);
  }
  return html;
}

}  // namespace mantissa
