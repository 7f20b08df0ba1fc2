#include <algorithm>
#include <cmath>

#include "report/chart.h"
#include "report/html.h"

namespace mantissa {
namespace {

constexpr double kWidth = 640, kHeight = 260, kLeft = 62, kRight = 14, kTop = 12, kBottom = 40;
constexpr size_t kMostPoints = 400;
constexpr size_t kMostMarks =
    12;  // points of a curve that are marked: of a short one, few make a line

struct Range {
  double low = INFINITY, high = -INFINITY;
  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Distance of about `count` ticks: 1, 2 or 5 times a power of ten.
double tick_step(double span, int count) {
  const double raw = std::max(span, 1e-300) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

// Numbers of a damaged file make no axis.
bool can_be_drawn(double value) { return std::abs(value) < 1e30; }

std::vector<double> ticks(Range range, double step) {
  std::vector<double> places;
  const double first = std::ceil(range.low / step);
  for (int i = 0; i < 16 && (first + i) * step <= range.high; ++i) {
    places.push_back((first + i) * step);
  }
  return places;
}

// The extremes of each of equally long stretches, so that no peak is lost.
Series thinned(const Series& series) {
  Series result;
  std::vector<size_t> finite;
  for (size_t i = 0; i < series.steps.size(); ++i) {
    if (can_be_drawn(series.steps[i]) && can_be_drawn(series.values[i])) finite.push_back(i);
  }
  const size_t stretch = std::max<size_t>(1, 2 * finite.size() / kMostPoints);
  for (size_t at = 0; at < finite.size(); at += stretch) {
    const auto begin = finite.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(stretch, finite.size() - at));
    const auto [low, high] = std::minmax_element(
        begin, end, [&](size_t a, size_t b) { return series.values[a] < series.values[b]; });
    for (const size_t i : {std::min(*low, *high), std::max(*low, *high)}) {
      if (!result.steps.empty() && result.steps.back() == series.steps[i]) continue;
      result.steps.push_back(series.steps[i]);
      result.values.push_back(series.values[i]);
    }
  }
  return result;
}

class Drawing {
 public:
  Drawing(const LineChart& chart, Range x, Range y) : chart_(chart), x_(x), y_(y) {
    const bool is_fraction = chart.percent && y.low >= 0 && y.high <= 1;
    if (chart.from_zero) y_.low = std::min(0.0, y_.low);
    if (x_.low == x_.high) x_.low -= 1, x_.high += 1;
    const double margin = y_.high > y_.low ? 0.04 * (y_.high - y_.low)
                          : chart.percent  ? 0.05
                          : y.high != 0    ? 0.1 * std::abs(y.high)
                                           : 1;
    y_.high += margin;
    if (!chart.from_zero) y_.low -= margin;
    if (is_fraction) y_.low = std::max(y_.low, 0.0), y_.high = std::min(y_.high, 1.0);
  }

  double x(double step) const {
    return kLeft + (step - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kTop + (y_.high - value) / (y_.high - y_.low) * (kHeight - kTop - kBottom);
  }

  std::string axes() const {
    std::string svg;
    // Between two steps there is nothing.
    const double x_step = std::max(1.0, tick_step(x_.high - x_.low, 6));
    const double y_step = tick_step(y_.high - y_.low, 5);
    for (const double value : ticks(y_, y_step)) {
      svg += line("grid", kLeft, y(value), kWidth - kRight, y(value));
      svg += label(kLeft - 6, y(value) + 4, "end", tick_text(value, y_step));
    }
    for (const double at : ticks(x_, x_step)) {
      svg += line("grid", x(at), kHeight - kBottom, x(at), kHeight - kBottom + 4);
      svg += label(x(at), kHeight - kBottom + 17, "middle", grouped_text(at));
    }
    svg += line("axis", kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom);
    svg += label((kLeft + kWidth - kRight) / 2, kHeight - 6, "middle", "step");
    return svg + "<text class=\"unit\" transform=\"translate(13 " +
           number_text((kTop + kHeight - kBottom) / 2) + ") rotate(-90)\" text-anchor=\"middle\">" +
           escaped(chart_.unit) + "</text>\n";
  }

  std::string curve(const Curve& curve, const Series& points) const {
    std::string path;
    for (size_t i = 0; i < points.steps.size(); ++i) {
      path += (i == 0 ? "M" : "L") + number_text(x(points.steps[i]), 6) + " " +
              number_text(y(points.values[i]), 6);
    }
    const std::string run = "run" + std::to_string(curve.run);
    std::string svg = "<path class=\"curve " + run + "\" d=\"" + path + "\"/>\n";
    if (points.steps.size() > kMostMarks) return svg;
    for (size_t i = 0; i < points.steps.size(); ++i) {
      svg += "<circle class=\"mark " + run + "\" cx=\"" + number_text(x(points.steps[i]), 6) +
             "\" cy=\"" + number_text(y(points.values[i]), 6) + "\" r=\"3\"/>\n";
    }
    return svg;
  }

  nlohmann::json frame() const {
    return {{"left", kLeft},
            {"right", kWidth - kRight},
            {"low", x_.low},
            {"high", x_.high},
            {"width", kWidth},
            {"percent", chart_.percent},
            {"bottom", kHeight - kBottom},
            {"top", kTop},
            {"unit", chart_.unit}};
  }

 private:
  // In as many digits as tell it from its neighbours.
  std::string tick_text(double value, double step) const {
    const double factor = chart_.percent ? 100 : 1, shown = factor * value;
    if (std::abs(shown) >= 1000 && std::abs(shown) < 1e7 && factor * step >= 1) {
      return grouped_text(shown);
    }
    const double largest = std::max(std::abs(y_.low), std::abs(y_.high));
    const int digits = 1 + static_cast<int>(std::ceil(std::log10(std::max(1.0, largest / step))));
    return number_text(std::abs(value) < step / 2 ? 0 : shown, std::clamp(digits, 3, 15));
  }

  static std::string line(const char* css, double x1, double y1, double x2, double y2) {
    return std::string("<line class=\"") + css + "\" x1=\"" + number_text(x1, 6) + "\" y1=\"" +
           number_text(y1, 6) + "\" x2=\"" + number_text(x2, 6) + "\" y2=\"" + number_text(y2, 6) +
           "\"/>\n";
  }
  static std::string label(double x, double y, const char* anchor, const std::string& text) {
    return "<text x=\"" + number_text(x, 6) + "\" y=\"" + number_text(y, 6) + "\" text-anchor=\"" +
           anchor + "\">" + escaped(text) + "</text>\n";
  }

  const LineChart& chart_;
  Range x_, y_;
};

std::string legend(const std::vector<Curve>& curves) {
  if (curves.size() < 2) return "";
  std::string html = "<p class=\"legend\">";
  for (const Curve& curve : curves) {
    html += "<span><svg width=\"28\" height=\"8\" aria-hidden=\"true\"><path class=\"curve run" +
            std::to_string(curve.run) + "\" d=\"M1 4H27\"/></svg> " + escaped(curve.name) +
            "</span> ";
  }
  return html + "</p>\n";
}

}  // namespace

std::string line_chart(const LineChart& chart, const std::vector<Curve>& curves) {
  Range x, y;
  std::vector<Series> points;
  nlohmann::json data = {{"curves", nlohmann::json::array()}};
  for (const Curve& curve : curves) {
    points.push_back(thinned(*curve.series));
    for (const double step : points.back().steps) x.include(step);
    for (const double value : points.back().values) y.include(value);
    data["curves"].push_back({{"name", curve.name},
                              {"run", curve.run},
                              {"x", points.back().steps},
                              {"y", points.back().values}});
  }
  if (x.low > x.high || y.low > y.high) return "";
  const Drawing drawing(chart, x, y);
  data["frame"] = drawing.frame();
  std::string svg = drawing.axes();
  for (size_t i = 0; i < curves.size(); ++i) svg += drawing.curve(curves[i], points[i]);
  return "<figure class=\"chart\"><figcaption>" + escaped(chart.title) + "</figcaption>\n" +
         "<svg viewBox=\"0 0 " + number_text(kWidth) + " " + number_text(kHeight) +
         "\" role=\"img\" tabindex=\"0\" aria-label=\"" + escaped(chart.title) + " over steps, " +
         escaped(chart.unit) + "\">\n" + svg + "<line class=\"cursor\" hidden=\"\"/>\n</svg>\n" +
         legend(curves) + "<p class=\"value\" aria-live=\"polite\"></p>\n" +
         "<script type=\"application/json\">" + script_json(data) + "</script></figure>\n";
}

}  // namespace mantissa
