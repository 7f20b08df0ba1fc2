// Charts as inline SVG and PNG, with their numbers beside them for the page's script to show.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.h"

namespace mantissa {

// One curve; `run` chooses its colour and dashes.
struct Curve {
  std::string name;
  int run = 0;
  const Series* series = nullptr;
};

struct LineChart {
  std::string title;
  std::string unit;  // of the vertical axis
  bool from_zero = true;
  bool percent = false;  // values are fractions
};

// Curves over steps, with axes, units and a legend if there are several; "" without a point.
// Long ones are thinned out to the extremes of each stretch.
std::string line_chart(const LineChart& chart, const std::vector<Curve>& curves);

// How numbers become colours.
enum class HeatScale { kLinear, kFraction, kLogRate };

struct HeatMap {
  std::string title;
  HeatScale scale = HeatScale::kLinear;
  std::vector<std::string> rows;
  std::vector<double> steps;
  std::vector<const std::vector<double>*> values;  // per row, per step
};

// A picture of rows x steps with a legend; "" if it is empty. Many steps are thinned out.
std::string heat_map(const HeatMap& map);

}  // namespace mantissa
