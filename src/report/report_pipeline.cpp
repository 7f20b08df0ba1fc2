// The division of a run among the stages of a pipeline, and the timeline of the stages.
#include <algorithm>
#include <cmath>

#include "pipeline/diagram.h"
#include "report/html.h"
#include "report/report.h"

namespace mantissa {
namespace {

using Json = nlohmann::json;
using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kMostStagesShown = 1000;

// A list of the summary; empty if there is none.
const Json& list_of(const Json& object, const char* key) {
  static const Json none = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : none;
}

std::string first_to_last(const Json& layers) {
  if (!layers.is_array() || layers.empty()) return "-";
  const auto text = [](const Json& name) {
    return name.is_string() ? escaped(name.get<std::string>()) : std::string("-");
  };
  const std::string first = text(layers.front()), last = text(layers.back());
  return layers.size() == 1 ? first : first + " to " + last;
}

std::string stages_table(const RunRecord& run) {
  const Json &division = list_of(run.summary, "division"),
             &idle = list_of(run.summary, "idle_fraction");
  const std::vector<double> traced =
      run.trace ? pipeline::idle_of(*run.trace) : std::vector<double>{};
  Rows rows;
  for (size_t s = 0; s < std::min(division.size(), kMostStagesShown); ++s) {
    const bool known = s < idle.size() && idle[s].is_number();
    rows.push_back({std::to_string(s + 1), first_to_last(division[s]),
                    std::to_string(division[s].is_array() ? division[s].size() : 0),
                    known ? percent_text(idle[s].get<double>(), 1) : "-"});
    if (!traced.empty()) {
      rows.back().push_back(s < traced.size() ? percent_text(traced[s], 1) : "-");
    }
  }
  std::vector<std::string> head = {"stage", "layers", "number", "idle"};
  if (!traced.empty()) head.emplace_back("idle in the trace");
  return rows.empty() ? "" : table(head, rows);
}

std::string staleness_table(const RunRecord& run) {
  Rows rows;
  for (const Json& layer : list_of(run.summary, "staleness")) {
    if (!layer.is_object()) continue;
    rows.push_back({escaped(text_of(layer, "layer")), number_text(number_of(layer, "stage", NAN)),
                    number_text(number_of(layer, "mean", NAN), 3),
                    number_text(number_of(layer, "most", NAN))});
  }
  if (rows.empty()) return "";
  return "<h3>Missed updates</h3>\n<p class=\"dim\">Between a micro-batch's forward pass and the "
         "gradients of its weights, as the stages counted them.</p>\n" +
         table({"layer", "stage", "mean", "most"}, rows);
}

// The steps of the trace that make a legible picture: its last ones.
pipeline::Trace legible(const pipeline::Trace& trace) {
  constexpr size_t kMostCells = 400;
  int64_t last = 0;
  for (const auto& cells : trace.stages) {
    for (const auto& cell : cells) last = std::max(last, cell.step);
  }
  pipeline::Trace part = {trace.options, trace.names, {}};
  int64_t from = last;
  const auto count = [&](int64_t first) {
    size_t cells = 0;
    for (const auto& stage : trace.stages) {
      cells += std::ranges::count_if(stage, [&](const auto& cell) { return cell.step >= first; });
    }
    return cells;
  };
  while (from > 1 && last - from < 3 && count(from - 1) <= kMostCells) --from;
  const size_t most_of_stage = std::max<size_t>(4, 10 * kMostCells / trace.stages.size());
  for (const auto& stage : trace.stages) {
    auto& cells = part.stages.emplace_back();
    for (const auto& cell : stage) {
      if (cell.step >= from && cells.size() < most_of_stage) cells.push_back(cell);
    }
  }
  return part;
}

std::string timeline(const RunRecord& run) {
  if (!run.trace) return "";
  return "<h3>Timeline</h3>\n<p class=\"dim\">The last steps of trace.json: M forward, B backward, "
         "G gradients of weights, W update, and the micro-batch.</p>\n<div class=\"scroll\">" +
         pipeline::timeline_svg(legible(*run.trace)) + "</div>\n";
}

}  // namespace

std::string pipeline_section(const RunRecord& run) {
  const std::string way = text_of(run.summary, "pipeline");
  std::string html = stages_table(run);
  if (!html.empty()) {
    html = "<p>" + escaped(way) + ", " + grouped_text(number_of(run.summary, "accumulate", NAN)) +
           " micro-batches in an update.</p>\n" + html;
  }
  return html + staleness_table(run) + timeline(run);
}

}  // namespace mantissa
