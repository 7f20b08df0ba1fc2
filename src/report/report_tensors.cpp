#include "report/chart.h"
#include "report/html.h"
#include "report/report.h"

namespace mantissa {
namespace {

// The tensors of one kind: their names, and three pictures with a row for each.
std::string kind_maps(const RunRecord& run, const char* kind) {
  HeatMap exponent{"Exponent", HeatScale::kLinear, {}, run.tensor_steps, {}};
  HeatMap clipped{"Clipped mantissas", HeatScale::kLogRate, {}, run.tensor_steps, {}};
  HeatMap bits{"Bit use", HeatScale::kFraction, {}, run.tensor_steps, {}};
  std::string names;
  for (const TensorHistory& tensor : run.tensors) {
    if (tensor.kind != kind) continue;
    names += "<li title=\"" +
             escaped(tensor.name + ", written by " + tensor.written_by + ", " +
                     std::to_string(tensor.bits) + " bits") +
             "\">" + escaped(tensor.name) + "</li>\n";
    for (HeatMap* map : {&exponent, &clipped, &bits}) map->rows.push_back(tensor.name);
    exponent.values.push_back(&tensor.exponent);
    clipped.values.push_back(&tensor.saturation_rate);
    bits.values.push_back(&tensor.bit_use);
  }
  if (names.empty()) return "";
  return "<div class=\"layers\"><ol>\n" + names + "</ol>\n" + heat_map(exponent) +
         heat_map(clipped) + heat_map(bits) + "</div>\n";
}

}  // namespace

std::string tensors_section(const RunRecord& run) {
  if (run.tensor_steps.empty()) return "";
  struct Kind {
    const char* name;
    const char* title;
  };
  constexpr Kind kKinds[] = {{"value", "Values"},
                             {"gradient", "Gradients of values"},
                             {"parameter", "Parameters"},
                             {"parameter gradient", "Gradients of parameters"}};
  std::string html =
      "<p class=\"dim\">Rows are tensors in the order in which a step writes them, columns are the "
      "observed steps. Bit use is the mean bit length of |mantissa| over the bits that it has. "
      "Clipped mantissas are a part of those written.</p>\n";
  for (const Kind& kind : kKinds) {
    const std::string maps = kind_maps(run, kind.name);
    if (maps.empty()) continue;
    html += std::string("<details open=\"\"><summary>") + kind.title + "</summary>\n" + maps +
            "</details>\n";
  }
  return html;
}

}  // namespace mantissa
