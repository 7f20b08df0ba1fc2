#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/reports/report.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

using Json = nlohmann::ordered_json;

Json parse_summary(const std::string& summary_json) {
  Json summary = Json::parse(summary_json, nullptr, false);
  return summary.is_object() ? summary : Json::object();
}

std::optional<double> number_in(const Json& summary, const char* name) {
  const auto found = summary.find(name);
  if (found == summary.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string line(const Terminal& terminal, const char* name, const std::string& value) {
  return "  " + terminal.paint("2", pad_right(std::string(name) + " ", 15)) + value + "\n";
}

std::string memory_text(const Json& summary) {
  const auto planned = number_in(summary, "planned_peak_bytes");
  const auto measured = number_in(summary, "peak_rss_bytes");
  std::string text;
  if (planned) text = bytes_text(*planned) + " planned";
  if (measured) text += (planned ? ", " : "") + bytes_text(*measured) + " measured";
  return text;
}

// Empty without a step.
std::string step_rate_text(const Json& summary) {
  const double rate = number_in(summary, "examples_per_second").value_or(0);
  return rate > 0 ? grouped(rate) + " examples/s" : "";
}

std::string speed_text(const Json& summary) {
  const std::string rate = step_rate_text(summary);
  const auto step_ms = number_in(summary, "step_ms_median");
  return rate + (!rate.empty() && step_ms ? ", " + decimal(*step_ms, 1) + " ms per step" : "");
}

// "stage 1 3.2 %, stage 2 5.1 %".
std::string idle_text(const Json& summary) {
  const auto idle = summary.find("idle_fraction");
  if (idle == summary.end() || !idle->is_array()) return "";
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t s = 0; s < std::min(idle->size(), kMost); ++s) {
    if (!(*idle)[s].is_number()) return "";
    text += (s > 0 ? ", stage " : "stage ") + std::to_string(s + 1) + " " +
            percent((*idle)[s].get<double>(), 1);
  }
  return text + (idle->size() > kMost ? ", ..." : "");
}

// "test accuracy 89.43 %, AUC 0.9", or "test R2 0.9, RMSE 3".
std::string scores_text(const Json& summary) {
  std::string text;
  if (const auto accuracy = number_in(summary, "test_accuracy")) {
    text = "test accuracy " + percent(*accuracy);
  }
  if (const auto rate = number_in(summary, "test_label_error_rate")) {
    text += ", label error rate " + percent(*rate);
  }
  if (const auto auc = number_in(summary, "test_auc")) text += ", AUC " + decimal(*auc, 4);
  if (const auto f1 = number_in(summary, "test_micro_f1")) text += ", micro F1 " + decimal(*f1, 4);
  if (const auto r2 = number_in(summary, "test_r2")) {
    text = "test R2 " + decimal(*r2, 4);
    if (const auto rmse = number_in(summary, "test_rmse")) text += ", RMSE " + number_text(*rmse);
  }
  return text;
}

// The results of each output by its name, if there are several.
Json outputs_of(const Json& summary) {
  const auto found = summary.find("outputs");
  return found != summary.end() && found->is_object() ? *found : Json::object();
}

}  // namespace

std::string training_report(const std::string& summary_json, std::optional<double> seconds,
                            const Terminal& terminal) {
  const Json summary = parse_summary(summary_json);
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += line(terminal, name, value);
  };
  if (const auto accuracy = number_in(summary, "test_accuracy")) {
    add("test accuracy", terminal.paint("1", percent(*accuracy)));
  }
  if (const auto rate = number_in(summary, "test_label_error_rate")) {
    add("label error rate", percent(*rate));
  }
  constexpr std::pair<const char*, const char*> kLabelScores[] = {
      {"test_auc", "test AUC"},
      {"test_average_precision", "average precision"},
      {"test_precision", "test precision"},
      {"test_recall", "test recall"},
      {"test_f1", "test F1"},
      {"test_rank_mae", "test rank error"},
      {"test_quadratic_kappa", "quadratic kappa"},
      {"test_micro_f1", "test micro F1"},
      {"test_macro_f1", "test macro F1"},
      {"test_mean_average_precision", "mean average precision"}};
  for (const auto& [key, name] : kLabelScores) {
    if (const auto score = number_in(summary, key)) add(name, decimal(*score, 4));
  }
  if (const auto r2 = number_in(summary, "test_r2")) {
    add("test R2", terminal.paint("1", decimal(*r2, 4)));
  }
  if (const auto rmse = number_in(summary, "test_rmse")) add("test RMSE", number_text(*rmse));
  const Json outputs = outputs_of(summary);
  for (const auto& [name, output] : outputs.items()) {
    const double loss = number_in(output, "test_loss").value_or(NAN);
    add(printable(name).c_str(), scores_text(output) + ", loss " + decimal(loss, 4));
  }
  if (const auto loss = number_in(summary, "test_loss")) add("test loss", decimal(*loss, 4));
  if (const auto bits = number_in(summary, "test_bits_per_token")) {
    add("bits per token", terminal.paint("1", decimal(*bits, 4)));
  }
  if (const auto perplexity = number_in(summary, "test_perplexity")) {
    add("perplexity", decimal(*perplexity, 3));
  }
  if (seconds) add("time", duration(*seconds));
  add("speed", speed_text(summary));
  add("idle", idle_text(summary));
  add("peak memory", memory_text(summary));
  if (const auto bytes = number_in(summary, "weight_state_bytes_per_parameter")) {
    const auto parameters = number_in(summary, "parameters");
    add("weight state", decimal(*bytes, 2) + " bytes per parameter" +
                            (parameters ? ", " + grouped(*parameters) + " parameters" : ""));
  }
  return text;
}

std::string training_line(const std::string& summary_json, const std::string& out) {
  const Json summary = parse_summary(summary_json);
  std::string text = scores_text(summary);
  const Json outputs = outputs_of(summary);
  for (const auto& [name, output] : outputs.items()) {
    text += (text.empty() ? "" : ", ") + printable(name) + " " + scores_text(output);
  }
  for (const std::string& part : {step_rate_text(summary), printable(out)}) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text + "\n";
}

std::string summary_entry(const std::string& summary_json, const std::string& name) {
  const Json summary = parse_summary(summary_json);
  const auto found = summary.find(name);
  if (found == summary.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

}  // namespace mantissa::cli
