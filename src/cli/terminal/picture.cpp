#include "cli/terminal/picture.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

constexpr int kWidestPicture = 32, kNarrowestCell = 22, kGap = 2;

struct Image {
  int height = 0, width = 0;
  std::vector<std::array<int, 3>> pixels;  // red, green, blue

  const std::array<int, 3>& at(int row, int column) const { return pixels[row * width + column]; }
};

// Grey and colour pictures; of other numbers of channels the first is shown.
Image read_image(const Prediction& prediction) {
  constexpr int64_t kLargest = 1 << 14;
  const auto [height, width, channels] =
      std::array{prediction.height, prediction.width, prediction.channels};
  if (height < 1 || width < 1 || channels < 1 || std::max({height, width, channels}) > kLargest ||
      prediction.pixels.size() != static_cast<size_t>(height * width * channels)) {
    return {};
  }
  Image image{static_cast<int>(height), static_cast<int>(width), {}};
  image.pixels.reserve(static_cast<size_t>(height * width));
  for (size_t i = 0; i < prediction.pixels.size(); i += static_cast<size_t>(channels)) {
    const uint8_t* pixel = prediction.pixels.data() + i;
    const bool colour = channels == 3;
    image.pixels.push_back({pixel[0], pixel[colour ? 1 : 0], pixel[colour ? 2 : 0]});
  }
  return image;
}

// For each of `count` output positions: weights of the input positions that it covers.
struct Coverage {
  int begin = 0;
  std::vector<double> weights;
};
std::vector<Coverage> coverage(int input, int count) {
  std::vector<Coverage> result(count);
  const double scale = static_cast<double>(input) / count;
  for (int i = 0; i < count; ++i) {
    const double begin = i * scale, end = (i + 1) * scale;
    result[i].begin = static_cast<int>(begin);
    for (int at = result[i].begin; at < input && at < end; ++at) {
      const double covered = std::min(end, at + 1.0) - std::max(begin, static_cast<double>(at));
      result[i].weights.push_back(covered / scale);
    }
  }
  return result;
}

Image resized(const Image& image, int height, int width) {
  if (height == image.height && width == image.width) return image;
  Image result{height, width, {}};
  const auto rows = coverage(image.height, height), lines = coverage(image.width, width);
  for (const Coverage& row : rows) {
    for (const Coverage& line : lines) {
      std::array<double, 3> sum = {0.5, 0.5, 0.5};
      for (size_t y = 0; y < row.weights.size(); ++y) {
        for (size_t x = 0; x < line.weights.size(); ++x) {
          const auto& pixel =
              image.at(row.begin + static_cast<int>(y), line.begin + static_cast<int>(x));
          for (int c = 0; c < 3; ++c) sum[c] += row.weights[y] * line.weights[x] * pixel[c];
        }
      }
      result.pixels.push_back(
          {static_cast<int>(sum[0]), static_cast<int>(sum[1]), static_cast<int>(sum[2])});
    }
  }
  return result;
}

std::string colour_code(int layer, const std::array<int, 3>& colour) {
  return "\033[" + std::to_string(layer) + ";2;" + std::to_string(colour[0]) + ";" +
         std::to_string(colour[1]) + ";" + std::to_string(colour[2]) + "m";
}

std::vector<std::string> draw_half_blocks(const Image& image) {
  std::vector<std::string> lines;
  for (int row = 0; row < image.height; row += 2) {
    std::string line, last;
    for (int column = 0; column < image.width; ++column) {
      std::string codes = colour_code(38, image.at(row, column));
      codes += row + 1 < image.height ? colour_code(48, image.at(row + 1, column)) : "\033[49m";
      if (codes != last) line += codes;
      line += "▀";
      last = codes;
    }
    lines.push_back(line + "\033[0m");
  }
  return lines;
}

std::vector<std::string> draw_ramp(const Image& image) {
  constexpr std::string_view kRamp = " .:-=+*#%@";
  std::vector<std::string> lines;
  for (int row = 0; row < image.height; ++row) {
    std::string line;
    for (int column = 0; column < image.width; ++column) {
      const auto& [red, green, blue] = image.at(row, column);
      const int grey = (299 * red + 587 * green + 114 * blue) / 1000;
      line += std::string(2, kRamp[grey * static_cast<int>(kRamp.size()) / 256]);
    }
    lines.push_back(line);
  }
  return lines;
}

// A picture with its text: `columns` wide lines.
std::vector<std::string> draw_cell(const Predictions& predictions, const Prediction& prediction,
                                   const Terminal& terminal, int cell) {
  const DrawnPicture picture = draw_picture(prediction, terminal, cell);
  std::vector<std::string> lines;
  for (const std::string& line : picture.lines) {
    lines.push_back(line + std::string(cell - picture.columns, ' '));
  }
  const bool known = prediction.label >= 0, right = prediction.label == prediction.guess;
  const auto mark = !known  ? std::string_view()
                    : right ? terminal.symbol("✓ ", "ok ")
                            : terminal.symbol("✗ ", "no ");
  const double probability = prediction.guess >= 0 && static_cast<size_t>(prediction.guess) <
                                                          prediction.probabilities.size()
                                 ? prediction.probabilities[prediction.guess]
                                 : NAN;
  const std::string sure = ", " + percent(probability, 0);
  const std::string name = shortened(class_name(predictions.class_names, prediction.guess),
                                     cell - columns(mark) - columns(sure));
  const std::string guess = pad_right(std::string(mark) + name + sure, cell);
  const auto note = [&](const std::string& text) {
    lines.push_back(terminal.paint("2", pad_right(shortened(text, cell), cell)));
  };
  note(shortened_path(printable(prediction.source), cell));
  lines.push_back(known ? terminal.paint(right ? "32" : "31", guess) : guess);
  if (known && !right) note("is " + class_name(predictions.class_names, prediction.label));
  return lines;
}

}  // namespace

DrawnPicture draw_picture(const Prediction& prediction, const Terminal& terminal, int max_columns) {
  const Image image = read_image(prediction);
  if (image.pixels.empty()) return {};
  const bool blocks = terminal.colour && terminal.utf8;
  const int characters = blocks ? 1 : 2;  // per pixel
  // The ramp shows half of the pixels, so that both are of about the same size.
  const int wanted = blocks ? image.width : (image.width + 1) / 2;
  const int width = std::max(1, std::min(wanted, max_columns / characters));
  const int height = std::clamp(
      static_cast<int>(std::lround(static_cast<double>(image.height) * width / image.width)), 1,
      4 * kWidestPicture);
  const Image scaled = resized(image, height, width);
  return {blocks ? draw_half_blocks(scaled) : draw_ramp(scaled), width * characters};
}

std::string picture_gallery(const Predictions& predictions, const Terminal& terminal) {
  if (!predictions.outputs.empty()) return "";  // there is no one guess to write below them
  std::vector<const Prediction*> shown;
  int64_t widest = 0;
  for (const Prediction& prediction : predictions.predictions) {
    if (read_image(prediction).pixels.empty()) continue;
    shown.push_back(&prediction);
    widest = std::max(widest, prediction.width);
  }
  if (shown.empty()) return "";
  const int width = terminal.width();
  // At least three in a row, scaled down if need be.
  const int full = std::clamp(static_cast<int>(std::min<int64_t>(widest, kWidestPicture)),
                              kNarrowestCell, kWidestPicture);
  const int cell = std::max(10, std::min(full, (width - 2 * kGap) / 3));
  const size_t per_row = std::max(1, (width + kGap) / (cell + kGap));
  std::string text;
  for (size_t first = 0; first < shown.size(); first += per_row) {
    std::vector<std::string> rows;
    for (size_t i = first; i < std::min(shown.size(), first + per_row); ++i) {
      const auto lines = draw_cell(predictions, *shown[i], terminal, cell);
      const int before = static_cast<int>(i - first) * (cell + kGap);
      if (rows.size() < lines.size()) rows.resize(lines.size(), std::string(before, ' '));
      for (size_t line = 0; line < rows.size(); ++line) {
        rows[line] += line < lines.size() ? lines[line] : std::string(cell, ' ');
        rows[line] += std::string(kGap, ' ');
      }
    }
    for (const std::string& row : rows) text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
    text += "\n";
  }
  return text;
}

std::string class_name(const std::vector<std::string>& names, int index) {
  if (index >= 0 && static_cast<size_t>(index) < names.size() && !names[index].empty()) {
    return printable(names[index]);
  }
  return index >= 0 ? std::to_string(index) : "?";
}

}  // namespace mantissa::cli
