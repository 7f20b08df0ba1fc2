#include <string_view>

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

// How the lengths of the mantissas of one tensor are spread over the steps.
std::string histogram(const RunRecord& run, const TensorHistory& tensor) {
  HeatMap map{tensor.name, HeatScale::kLogRate, {}, run.histogram_steps, {}};
  for (size_t length = tensor.bit_shares.size(); length-- > 0;) {
    map.rows.push_back(std::to_string(length) + " bits");
    map.values.push_back(&tensor.bit_shares[length]);
  }
  return heat_map(map);
}

// Histograms of all tensors of the kind; nothing if no step has any.
std::string histograms(const RunRecord& run, const char* kind, const char* title) {
  std::string maps;
  for (const TensorHistory& tensor : run.tensors) {
    if (tensor.kind == kind) maps += histogram(run, tensor);
  }
  if (maps.empty()) return "";
  return std::string("<details><summary>") + title +
         ": how many mantissas have how many bits</summary>\n<div class=\"layers histograms\">\n" +
         maps + "</div>\n</details>\n";
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
    // The sums of a parameter's gradient have up to 61 bits and no width that they should fill.
    const bool has_width = kind.name != std::string_view("parameter gradient");
    if (has_width) html += histograms(run, kind.name, kind.title);
  }
  return html;
}

}  // namespace mantissa
