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

std::string label(const Cell& cell) {
  return kLetters[static_cast<size_t>(cell.work)] + std::to_string(cell.index + 1);
}

std::string real(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
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
      row.resize(to, label(schedule.stages[s][i]));
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

std::string diagram_svg(const Schedule& schedule, const Simulation& simulation) {
  constexpr double kWidth = 1600, kRow = 28, kLeft = 48;
  const double scale = simulation.total > 0 ? (kWidth - kLeft) / simulation.total : 1;
  const double height = kRow * static_cast<double>(schedule.stages.size());
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + real(kWidth) +
                    " " + real(height) + "\" font-family=\"sans-serif\" font-size=\"11\">\n";
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    const double top = kRow * static_cast<double>(s);
    svg += "<text x=\"4\" y=\"" + real(top + 18) + "\">P" + std::to_string(s + 1) + "</text>\n";
    for (size_t i = 0; i < schedule.stages[s].size(); ++i) {
      const Cell& cell = schedule.stages[s][i];
      const Interval& interval = simulation.stages[s].intervals[i];
      const double x = kLeft + interval.start * scale;
      const double width = (interval.end - interval.start) * scale;
      if (width <= 0) continue;
      svg += "<rect x=\"" + real(x) + "\" y=\"" + real(top + 3) + "\" width=\"" + real(width) +
             "\" height=\"22\" stroke=\"#fff\" stroke-width=\".5\" fill=\"" +
             kColours[static_cast<size_t>(cell.work)] + "\"><title>" + label(cell) +
             "</title></rect>\n";
      if (width >= 22) {
        svg += "<text x=\"" + real(x + 3) + "\" y=\"" + real(top + 18) + "\">" + label(cell) +
               "</text>\n";
      }
    }
  }
  return svg + "</svg>\n";
}

}  // namespace mantissa::pipeline
