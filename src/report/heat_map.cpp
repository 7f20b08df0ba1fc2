#include <algorithm>
#include <array>
#include <cmath>

#include "formats/pictures/png.h"
#include "report/chart.h"
#include "report/html.h"

namespace mantissa {
namespace {

constexpr size_t kMostColumns = 160;
// The rate at which the logarithmic scale begins; 0 has its own colour.
constexpr double kLeastRate = 1e-6;

using Colour = std::array<double, 3>;
// From dark blue to yellow, told apart by every kind of colour vision; evenly lighter on the way.
constexpr std::array<Colour, 6> kColours = {{{0, 34, 78},
                                             {53, 69, 108},
                                             {102, 105, 112},
                                             {148, 142, 119},
                                             {200, 184, 102},
                                             {254, 232, 56}}};

Colour colour_at(double place) {
  const double scaled = std::clamp(place, 0.0, 1.0) * (kColours.size() - 1);
  const auto index = std::min(static_cast<size_t>(scaled), kColours.size() - 2);
  Colour colour;
  for (size_t c = 0; c < 3; ++c) {
    const double part = scaled - static_cast<double>(index);
    colour[c] = kColours[index][c] + part * (kColours[index + 1][c] - kColours[index][c]);
  }
  return colour;
}

struct Limits {
  double low = 0, high = 1;
};

Limits limits_of(const HeatMap& map) {
  if (map.scale == HeatScale::kFraction) return {};
  if (map.scale == HeatScale::kLogRate) return {kLeastRate, 1};
  Limits limits{INFINITY, -INFINITY};
  for (const auto* row : map.values) {
    for (const double value : *row) {
      if (!std::isfinite(value)) continue;
      limits.low = std::min(limits.low, value);
      limits.high = std::max(limits.high, value);
    }
  }
  if (limits.low >= limits.high) limits.high = limits.low + 1;
  return limits;
}

double place_of(double value, HeatScale scale, Limits limits) {
  if (!std::isfinite(value)) return 0;
  if (scale == HeatScale::kLogRate) {
    return value < limits.low ? 0 : 0.15 + 0.85 * (1 - std::log10(value) / std::log10(limits.low));
  }
  // Halves, because the difference of two numbers may overflow. The quotient may still be NaN.
  const double place = (value / 2 - limits.low / 2) / (limits.high / 2 - limits.low / 2);
  return std::isfinite(place) ? place : 0;
}

std::string legend(const HeatMap& map, Limits limits) {
  const bool rate = map.scale == HeatScale::kLogRate, part = map.scale == HeatScale::kFraction;
  const std::string low = rate ? "0" : part ? "0 %" : number_text(limits.low);
  const std::string high = rate || part ? "100 %" : number_text(limits.high);
  std::string gradient;
  for (const Colour& c : kColours) {
    gradient +=
        ",rgb(" + number_text(c[0]) + " " + number_text(c[1]) + " " + number_text(c[2]) + ")";
  }
  return "<p class=\"scale\"><span>" + low + "</span><i style=\"background:linear-gradient(90deg" +
         gradient + ")\"></i><span>" + high + (rate ? " (log.)" : "") + "</span></p>\n";
}

}  // namespace

std::string heat_map(const HeatMap& map) {
  if (map.rows.empty() || map.steps.empty()) return "";
  const size_t columns = std::min(kMostColumns, map.steps.size());
  const auto sample = [&](size_t column) {
    return columns == 1 ? map.steps.size() - 1 : column * (map.steps.size() - 1) / (columns - 1);
  };
  const Limits limits = limits_of(map);
  Image image{static_cast<int64_t>(map.rows.size()), static_cast<int64_t>(columns), 3, {}};
  nlohmann::json data = {{"rows", map.rows},
                         {"rate", map.scale != HeatScale::kLinear},
                         {"steps", nlohmann::json::array()},
                         {"values", nlohmann::json::array()}};
  for (size_t c = 0; c < columns; ++c) data["steps"].push_back(map.steps[sample(c)]);
  for (const auto* row : map.values) {
    nlohmann::json numbers = nlohmann::json::array();
    for (size_t c = 0; c < columns; ++c) {
      const double value = (*row)[sample(c)];
      numbers.push_back(std::isfinite(value) ? std::round(value * 1e7) / 1e7 : NAN);
      for (const double part : colour_at(place_of(value, map.scale, limits))) {
        image.pixels.push_back(static_cast<uint8_t>(std::lround(part)));
      }
    }
    data["values"].push_back(std::move(numbers));
  }
  const auto png = encode_png(image);
  if (!png.ok()) return "";
  return "<figure class=\"heat\"><figcaption>" + escaped(map.title) + "</figcaption>\n" +
         "<img alt=\"" + escaped(map.title) + ", a row per tensor, steps " +
         grouped_text(map.steps.front()) + " to " + grouped_text(map.steps.back()) +
         "\" tabindex=\"0\" style=\"height:" + std::to_string(14 * map.rows.size()) +
         "px\" src=\"" + png_uri(*png) + "\"/>\n<p class=\"ends\"><span>step " +
         grouped_text(map.steps.front()) + "</span><span>" +
         (map.steps.size() > 1 ? grouped_text(map.steps.back()) : "") + "</span></p>\n" +
         legend(map, limits) + "<p class=\"value\" aria-live=\"polite\"></p>\n" +
         "<script type=\"application/json\">" + script_json(data) + "</script></figure>\n";
}

}  // namespace mantissa
