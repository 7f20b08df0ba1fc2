#include "pipeline/diagram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace mantissa::pipeline {
namespace {

constexpr std::array<const char*, 4> kLetters = {"M", "B", "G", "W"};
constexpr std::array<const char*, 4> kColours = {"#5b8ff9", "#61c292", "#a7dfbf", "#e8963a"};

std::string label(Work work, int64_t number) {
  return kLetters[static_cast<size_t>(work)] + std::to_string(number);
}

// The number of the micro-batch, or of the update, from the first step on.
int64_t number_of(const TracedCell& cell, int accumulate) {
  return cell.work == Work::kUpdate ? cell.step : (cell.step - 1) * accumulate + cell.micro_batch;
}

std::string real(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

// The time at which the last stage has made this many updates, or all that there are.
double end_of_updates(const Schedule& schedule, const Simulation& simulation, int updates) {
  double end = 0;
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    for (size_t i = 0; i < schedule.stages[s].size(); ++i) {
      const Cell& cell = schedule.stages[s][i];
      if (cell.work != Work::kUpdate || cell.index >= updates) continue;
      end = std::max(end, simulation.stages[s].intervals[i].end);
    }
  }
  return end;
}

}  // namespace

Result<std::string> diagram(const Schedule& schedule, const StageTimes& times, int columns) {
  const std::vector<StageTimes> all(schedule.stages.size(), times);
  Result<Simulation> simulation = simulate(schedule, all);
  if (!simulation.ok()) return simulation.error();
  std::vector<std::vector<std::string>> rows;
  size_t width = 2, name_width = 1 + std::to_string(schedule.stages.size()).size();
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    std::vector<std::string> row;
    for (size_t i = 0; i < schedule.stages[s].size(); ++i) {
      const Interval& interval = simulation->stages[s].intervals[i];
      const auto from = static_cast<size_t>(std::llround(interval.start));
      const auto to = static_cast<size_t>(std::llround(interval.end));
      if (to <= from || to > static_cast<size_t>(columns)) continue;
      row.resize(from, ".");
      row.resize(to, label(schedule.stages[s][i].work, schedule.stages[s][i].index + 1));
      width = std::max(width, row.back().size());
    }
    rows.push_back(std::move(row));
  }
  std::string text;
  for (size_t s = 0; s < rows.size(); ++s) {
    std::string line = "P" + std::to_string(s + 1);
    line.resize(name_width, ' ');
    for (const std::string& cell : rows[s]) {
      line += " " + cell + std::string(width - cell.size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

Result<std::string> diagram_of_updates(const Schedule& schedule, const StageTimes& times,
                                       int updates) {
  constexpr int kMostColumns = 1000;
  const std::vector<StageTimes> all(schedule.stages.size(), times);
  MANTISSA_ASSIGN(const Simulation simulation, simulate(schedule, all));
  const auto columns =
      static_cast<int>(std::llround(end_of_updates(schedule, simulation, updates)));
  MANTISSA_ASSIGN(std::string text, diagram(schedule, times, std::min(columns, kMostColumns)));
  if (columns > kMostColumns) {
    text += "cut behind " + std::to_string(kMostColumns) + " of " + std::to_string(columns) +
            " columns: an update has " + std::to_string(schedule.options.accumulate) +
            " micro-batches\n";
  }
  return text;
}

std::string timeline_svg(const Trace& trace) {
  constexpr double kWidth = 1600, kRow = 28, kLeft = 48;
  int64_t start = INT64_MAX, end = 0;
  for (const auto& cells : trace.stages) {
    for (const TracedCell& cell : cells) {
      start = std::min(start, cell.start_ns);
      end = std::max(end, cell.end_ns);
    }
  }
  const double scale = end > start ? (kWidth - kLeft) / static_cast<double>(end - start) : 1;
  const double height = kRow * static_cast<double>(trace.stages.size());
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + real(kWidth) +
                    " " + real(height) + "\" font-family=\"sans-serif\" font-size=\"11\">\n";
  for (size_t s = 0; s < trace.stages.size(); ++s) {
    const double top = kRow * static_cast<double>(s);
    svg += "<text x=\"4\" y=\"" + real(top + 18) + "\">P" + std::to_string(s + 1) + "</text>\n";
    for (const TracedCell& cell : trace.stages[s]) {
      const double x = kLeft + static_cast<double>(cell.start_ns - start) * scale;
      const double width = static_cast<double>(cell.end_ns - cell.start_ns) * scale;
      if (width <= 0) continue;
      const std::string text = label(cell.work, number_of(cell, trace.options.accumulate));
      svg += "<rect x=\"" + real(x) + "\" y=\"" + real(top + 3) + "\" width=\"" + real(width) +
             "\" height=\"22\" stroke=\"#fff\" stroke-width=\".5\" fill=\"" +
             kColours[static_cast<size_t>(cell.work)] + "\"><title>" + text + "</title></rect>\n";
      if (width >= 22) {
        svg += "<text x=\"" + real(x + 3) + "\" y=\"" + real(top + 18) + "\">" + text + "</text>\n";
      }
    }
  }
  return svg + "</svg>\n";
}

std::string diagram_svg(const Schedule& schedule, const Simulation& simulation, int updates) {
  Trace trace = simulated_trace(schedule, simulation, schedule.options.updates);
  const double end = end_of_updates(schedule, simulation, updates);
  for (auto& cells : trace.stages) {
    std::erase_if(cells, [end](const TracedCell& cell) {
      return static_cast<double>(cell.end_ns) > std::ceil(end);
    });
  }
  return timeline_svg(trace);
}

}  // namespace mantissa::pipeline
