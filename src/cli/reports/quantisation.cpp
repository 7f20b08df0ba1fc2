#include <nlohmann/json.hpp>

#include "cli/reports/report.h"
#include "cli/terminal/table.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

std::string bits_text(int bits, bool is_signed) {
  return std::to_string(bits) + (is_signed ? ", signed" : "");
}

// Empty of 8 bits, and of few bits that were there before, whose error nobody knows.
std::string error_text(int bits, double error) {
  return bits >= 8 || error == 0 ? "" : percent(error);
}

std::string range_text(const QuantisedLayerInfo& layer) {
  if (layer.offset == 0) return decimal(layer.range, 3);
  return decimal(layer.offset, 3) + " to " + decimal(layer.offset + layer.range, 3);
}

}  // namespace

std::string quantisation_table(const std::vector<QuantisedLayerInfo>& layers,
                               const Terminal& terminal) {
  Table table({{"layer", Align::kTextCutAtStart},
               {"weights", Align::kNumber},
               {"error", Align::kNumber},
               {"activations", Align::kNumber},
               {"error", Align::kNumber},
               {"range", Align::kNumber},
               {"scales", Align::kText}});
  for (const QuantisedLayerInfo& layer : layers) {
    const bool few_activations = layer.activation_bits < 8;
    const bool any = few_activations || layer.weight_bits < 8;
    table.add({printable(layer.name), std::to_string(layer.weight_bits),
               error_text(layer.weight_bits, layer.weight_error),
               bits_text(layer.activation_bits, layer.is_signed),
               error_text(layer.activation_bits, layer.activation_error),
               few_activations && layer.range > 0 ? range_text(layer) : "",
               !any              ? ""
               : layer.any_scale ? "any"
                                 : "powers of two"});
  }
  return table.text(terminal.width(), terminal);
}

std::string sensitivity_table(const Sensitivity& sensitivity, const Terminal& terminal) {
  const bool has_accuracy = sensitivity.accuracy >= 0;
  std::vector<Column> columns = {{"layer", Align::kTextCutAtStart},
                                 {"weights", Align::kNumber},
                                 {"activations", Align::kNumber},
                                 {"loss", Align::kNumber},
                                 {"rise", Align::kNumber}};
  if (has_accuracy) columns.push_back({"accuracy", Align::kNumber});
  columns.push_back({"share", Align::kNumber});
  Table table(columns);
  for (const LayerSensitivity& row : sensitivity.layers) {
    std::vector<std::string> cells = {
        printable(row.layer.name), std::to_string(row.layer.weight_bits),
        std::to_string(row.layer.activation_bits), decimal(row.loss, 4),
        decimal(row.loss - sensitivity.loss, 4)};
    if (has_accuracy) cells.push_back(percent(row.accuracy));
    cells.push_back(percent(row.share, 0));
    table.add(cells);
  }
  std::string text = "8 bits everywhere: loss " + decimal(sensitivity.loss, 4) +
                     (has_accuracy ? ", accuracy " + percent(sensitivity.accuracy) : "") + ", of " +
                     grouped(static_cast<double>(sensitivity.examples)) +
                     " validation examples. Each layer alone:\n\n" +
                     table.text(terminal.width(), terminal);
  for (const SensitivityAdvice& advice : sensitivity.advice) {
    std::string names;
    for (const std::string& name : advice.layers) names += (names.empty() ? "" : ",") + name + "=8";
    text += "\n" + percent(advice.won_back, 0) + " of the rise comes back, for " +
            bytes_text(static_cast<double>(advice.more_bytes)) + " more, with\n  --bits " +
            printable(names) + "\n";
  }
  return text;
}

std::string sensitivity_json(const Sensitivity& sensitivity) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const LayerSensitivity& row : sensitivity.layers) {
    layers.push_back({{"layer", row.layer.name},
                      {"weight_bits", row.layer.weight_bits},
                      {"activation_bits", row.layer.activation_bits},
                      {"loss", row.loss},
                      {"share", row.share}});
    if (sensitivity.accuracy >= 0) layers.back()["accuracy"] = row.accuracy;
  }
  nlohmann::ordered_json advice = nlohmann::ordered_json::array();
  for (const SensitivityAdvice& row : sensitivity.advice) {
    advice.push_back({{"keep_at_8_bits", row.layers},
                      {"won_back", row.won_back},
                      {"more_bytes", row.more_bytes}});
  }
  nlohmann::ordered_json json = {{"loss", sensitivity.loss},
                                 {"examples", sensitivity.examples},
                                 {"layers", layers},
                                 {"advice", advice}};
  if (sensitivity.accuracy >= 0) json["accuracy"] = sensitivity.accuracy;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace mantissa::cli
