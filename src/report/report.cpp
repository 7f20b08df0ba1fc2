#include "report/report.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "report/chart.h"
#include "report/html.h"
#include "report/page.h"
#include "run/settings/run_folder.h"

namespace mantissa {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string section(const char* title, const std::string& body) {
  if (body.empty()) return "";
  return std::string("<section>\n<h2>") + title + "</h2>\n" + body + "</section>\n";
}

std::vector<std::string> heads(const std::vector<RunRecord>& runs) {
  std::vector<std::string> cells = {""};
  for (const RunRecord& run : runs) cells.push_back(escaped(run.name));
  return cells;
}

// The outputs that any run has, if it has several.
std::set<std::string> outputs_of(const std::vector<RunRecord>& runs) {
  constexpr std::string_view kLoss = "loss.";
  std::set<std::string> names;
  for (const RunRecord& run : runs) {
    for (const auto& [key, series] : run.metrics) {
      if (key.starts_with(kLoss)) names.insert(key.substr(kLoss.size()));
    }
  }
  return names;
}

std::string curves_section(const std::vector<RunRecord>& runs) {
  struct Metric {
    const char* key;
    LineChart chart;
  };
  const Metric metrics[] = {
      {"loss", {"Training loss", "nats", true, false}},
      {"accuracy", {"Training accuracy", "%", false, true}},
      {"learning_rate", {"Learning rate", "rate", true, false}},
      {"examples_per_second", {"Speed", "examples/s", true, false}},
      {"saturation_rate", {"Clipped mantissas", "% of those written", true, true}}};
  std::string charts;
  const auto add = [&](const std::string& key, const LineChart& chart) {
    std::vector<Curve> curves;
    for (size_t i = 0; i < runs.size(); ++i) {
      const auto found = runs[i].metrics.find(key);
      if (found == runs[i].metrics.end()) continue;
      curves.push_back({runs[i].name, static_cast<int>(i), &found->second});
    }
    charts += line_chart(chart, curves);
  };
  for (const Metric& metric : metrics) add(metric.key, metric.chart);
  for (const std::string& output : outputs_of(runs)) {
    add("loss." + output, {"Training loss, " + output, "nats", true, false});
    add("accuracy." + output, {"Training accuracy, " + output, "%", false, true});
  }
  return charts.empty() ? "" : "<div class=\"grid\">\n" + charts + "</div>\n";
}

// One row per entry of the summaries that any run has.
std::string results_section(const std::vector<RunRecord>& runs) {
  struct Entry {
    const char* key;
    const char* title;
    std::string (*text)(double);
  };
  const Entry entries[] = {
      {"test_accuracy", "test accuracy", [](double x) { return percent_text(x); }},
      {"test_label_error_rate", "label error rate", [](double x) { return percent_text(x); }},
      {"test_r2", "test R2", [](double x) { return number_text(x, 4); }},
      {"test_rmse", "test RMSE", [](double x) { return number_text(x); }},
      {"test_loss", "test loss, nats", [](double x) { return number_text(x); }},
      {"steps", "steps", grouped_text},
      {"train_seconds", "training, s", [](double x) { return number_text(x); }},
      {"examples_per_second", "examples/s", grouped_text},
      {"step_ms_median", "median step, ms", [](double x) { return number_text(x); }},
      {"parameters", "parameters", grouped_text},
      {"weight_state_bytes_per_parameter", "bytes of state per parameter",
       [](double x) { return number_text(x); }},
      {"saturation_rate", "clipped mantissas",
       [](double x) { return number_text(100 * x, 3) + " %"; }},
      {"re_executions", "gradients or instructions done again", grouped_text},
      {"guard_violations", "guarded batch norms", grouped_text},
      {"norm_channels_left_out", "channels not inverted for want of room", grouped_text}};
  Rows rows;
  for (const Entry& entry : entries) {
    std::vector<std::string> row = {entry.title};
    bool any = false;
    for (const RunRecord& run : runs) {
      const double value = number_of(run.summary, entry.key, NAN);
      any |= std::isfinite(value);
      row.push_back(entry.text(value));
    }
    if (any) rows.push_back(std::move(row));
  }
  return rows.empty() ? "" : table(heads(runs), rows, "numbers");
}

std::string memory_section(const std::vector<RunRecord>& runs) {
  double most = 0;
  for (const RunRecord& run : runs) {
    for (const char* key : {"planned_peak_bytes", "peak_rss_bytes"}) {
      most = std::max(most, number_of(run.summary, key, 0));
    }
  }
  if (!(most > 0)) return "";
  std::string html;
  for (const RunRecord& run : runs) {
    const auto bar = [&](const char* key, const char* what) {
      const double bytes = number_of(run.summary, key, NAN);
      if (!(bytes >= 0)) return;
      html += "<div class=\"bar\"><span>" + (runs.size() > 1 ? escaped(run.name) + ", " : "") +
              what + "</span><i class=\"" + what +
              "\" style=\"width:" + number_text(100 * bytes / most) + "%\"></i><span>" +
              bytes_text(bytes) + "</span></div>\n";
    };
    bar("planned_peak_bytes", "planned");
    bar("peak_rss_bytes", "measured");
  }
  return html + "<p class=\"dim\">Peak above the idle process, the data set counted in both.</p>\n";
}

std::string settings_section(const std::vector<RunRecord>& runs) {
  std::set<std::string> names;
  for (const RunRecord& run : runs) {
    for (const auto& [name, value] : run.settings) names.insert(name);
  }
  Rows differing, same;
  for (const std::string& name : names) {
    std::vector<std::string> row = {escaped(name)};
    std::set<std::string> values;
    for (const RunRecord& run : runs) {
      const auto found = run.settings.find(name);
      row.push_back(found == run.settings.end() ? "-" : escaped(found->second));
      values.insert(row.back());
    }
    if (values.size() > 1) {
      differing.push_back(row);
    } else {
      same.push_back({row[0], row[1]});
    }
  }
  std::string html;
  if (!differing.empty()) {
    html += "<h3>What differs</h3>\n" + table(heads(runs), differing);
  } else if (runs.size() > 1) {
    html += "<p>All settings are the same.</p>\n";
  }
  if (same.empty()) return html;
  if (runs.size() == 1) return html + table({}, same);
  return html + "<details><summary>What all have in common</summary>\n" + table({}, same) +
         "</details>\n";
}

// A word as a shell takes it. Characters that a page cannot show appear as their numbers.
std::string quoted(const std::string& word) {
  const bool plain =
      !word.empty() &&
      word.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=+@%") ==
          std::string::npos;
  if (plain) return word;
  const auto is_control = [](char c) { return (c >= 0 && c < 0x20) || c == 0x7F; };
  const bool by_number = std::any_of(word.begin(), word.end(), is_control) ||
                         escaped(word).find("\uFFFD") != std::string::npos;
  std::string text = by_number ? "$'" : "'";
  for (const char c : word) {
    if (!by_number) {
      text += c == '\'' ? "'\\''" : std::string(1, c);
    } else if (c < 0 || is_control(c)) {
      const auto code = static_cast<unsigned char>(c);
      text += '\\';
      for (const int shift : {6, 3, 0}) text += static_cast<char>('0' + (code >> shift & 7));
    } else {
      text += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
    }
  }
  return text + "'";
}

// A folder beside the run's, for repeating the same run.
std::string folder_again(const std::filesystem::path& folder) {
  constexpr std::string_view kSuffix = "-again";
  const std::string name = run_name(folder).substr(0, NAME_MAX - kSuffix.size());
  return (folder.parent_path() / (name + std::string(kSuffix))).string();
}

std::string identity_section(const RunRecord& run) {
  Rows rows;
  for (const char* key : {"run_identity", "weights_sha256", "state_sha256"}) {
    const std::string hash = text_of(run.summary, key);
    if (!hash.empty()) rows.push_back({key, "<code>" + escaped(hash) + "</code>"});
  }
  for (const char* key : {"model", "format", "data", "isa"}) {
    const std::string text = text_of(run.summary, key);
    if (!text.empty()) rows.push_back({key, escaped(text)});
  }
  const std::filesystem::path folder =
      run.folder.has_filename() ? run.folder : run.folder.parent_path();
  const std::string again = folder_again(folder);
  return table({}, rows) + "<p>To repeat it, and to see that the same bits come out:</p>\n<pre>" +
         escaped("mantissa train --config " + quoted((folder / kConfigFile).string()) + " --out " +
                 quoted(again) + "\nmantissa verify " + quoted(folder.string()) + " " +
                 quoted(again)) +
         "</pre>\n";
}

std::string problems_of(const RunRecord& run) {
  std::string html;
  for (const std::string& problem : run.problems) html += "<li>" + escaped(problem) + "</li>\n";
  return html.empty() ? "" : "<ul class=\"problems\">\n" + html + "</ul>\n";
}

// Everything about one run; among several, folded away.
std::string details(const RunRecord& run, bool alone) {
  const std::string body = problems_of(run) + section("Pipeline", pipeline_section(run)) +
                           section("Tensors over time", tensors_section(run)) +
                           section("Test examples", evaluation_section(run)) +
                           section("Identity", identity_section(run));
  if (alone) return body;
  return "<details><summary><b>" + escaped(run.name) + "</b> in detail (" +
         escaped(run.folder.string()) + ")</summary>\n" + body + "</details>\n";
}

}  // namespace

Result<std::vector<RunRecord>> read_runs(const std::vector<std::string>& folders) {
  if (folders.empty() || folders.size() > kMostRuns) {
    return invalid_input("a report is on 1 to " + std::to_string(kMostRuns) + " runs, not " +
                         std::to_string(folders.size()));
  }
  std::vector<RunRecord> runs;
  for (const std::string& folder : folders) {
    MANTISSA_ASSIGN(RunRecord run, read_run(folder));
    runs.push_back(std::move(run));
  }
  std::map<std::string, int> of_name;
  for (const RunRecord& run : runs) ++of_name[run.name];
  for (RunRecord& run : runs) {
    if (of_name[run.name] > 1) run.name = run.folder.string();
  }
  return runs;
}

std::string report_html(const std::vector<RunRecord>& runs) {
  std::string names;
  for (const RunRecord& run : runs) names += (names.empty() ? "" : ", ") + run.name;
  std::string body = "<h1>" + escaped(names) + "</h1>\n<p class=\"dim\">" +
                     (runs.size() == 1 ? std::string("A training run")
                                       : std::to_string(runs.size()) + " training runs") +
                     " of Mantissa</p>\n";
  body += section("Results", results_section(runs));
  body += section("Training", curves_section(runs));
  body += section("Memory", memory_section(runs));
  body += section("Settings", settings_section(runs));
  for (const RunRecord& run : runs) body += details(run, runs.size() == 1);
  return page(names, body);
}

}  // namespace mantissa
