#include "cli/report.h"
#include "cli/table.h"
#include "cli/text.h"

namespace mantissa::cli {
namespace {

std::string bits_text(int bits, bool is_signed) {
  return std::to_string(bits) + (is_signed ? ", signed" : "");
}

std::string error_text(int bits, double error) { return bits == 8 ? "" : percent(error); }

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
               few_activations ? decimal(layer.range, 3) : "",
               !any             ? ""
               : layer.has_norm ? "any"
                                : "powers of two"});
  }
  return table.text(terminal.width(), terminal);
}

}  // namespace mantissa::cli
