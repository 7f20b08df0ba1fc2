#include "data/pictures/resize.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "formats/pictures/image.h"

namespace mantissa {
namespace {

// The sources of each output position of an axis: input positions begin ... begin + n - 1 with
// weights[first] ... weights[first + n - 1], which add up to `total`.
struct Axis {
  struct Part {
    int64_t begin, first, count;
  };
  std::vector<Part> parts;
  std::vector<int32_t> weights;
  int64_t total = 1;
};

// An output position covers `input` / `output` input positions.
void average(int64_t input, int64_t output, Axis& axis) {
  axis.total = input;
  for (int64_t i = 0; i < output; ++i) {
    // In units of 1 / output of an input position.
    const int64_t from = i * input, to = from + input;
    const int64_t begin = from / output;
    axis.parts.push_back({begin, static_cast<int64_t>(axis.weights.size()), 0});
    for (int64_t at = begin; at * output < to; ++at) {
      const int64_t covered = std::min(to, (at + 1) * output) - std::max(from, at * output);
      axis.weights.push_back(static_cast<int32_t>(covered));
      ++axis.parts.back().count;
    }
  }
}

// An output position lies between the centres of two input positions; outside them it is as the
// nearest.
void interpolate(int64_t input, int64_t output, Axis& axis) {
  axis.total = 2 * output;
  for (int64_t i = 0; i < output; ++i) {
    // In units of 1 / (2 output), from the centre of the first input position.
    const int64_t place =
        std::clamp<int64_t>((2 * i + 1) * input - output, 0, (input - 1) * axis.total);
    const int64_t begin = std::min(place / axis.total, std::max<int64_t>(0, input - 2));
    const int64_t beyond = place - begin * axis.total;
    const int64_t count = std::min<int64_t>(2, input);
    axis.parts.push_back({begin, static_cast<int64_t>(axis.weights.size()), count});
    axis.weights.push_back(static_cast<int32_t>(axis.total - beyond));
    if (count == 2) axis.weights.push_back(static_cast<int32_t>(beyond));
  }
}

Axis make_axis(int64_t input, int64_t output) {
  Axis axis;
  output <= input ? average(input, output, axis) : interpolate(input, output, axis);
  return axis;
}

// One row of the input, made as wide as the output; sums of weights times pixels.
void resize_row(const uint8_t* row, const Axis& axis, int64_t channels, int32_t* out) {
  for (const Axis::Part& part : axis.parts) {
    for (int64_t c = 0; c < channels; ++c) {
      int32_t sum = 0;  // at most 255 * 2 * 16384
      for (int64_t i = 0; i < part.count; ++i) {
        sum += axis.weights[part.first + i] * row[(part.begin + i) * channels + c];
      }
      *out++ = sum;
    }
  }
}

// Resizes the crop of in[..][in_width][channels].
void resize(const uint8_t* in, int64_t in_width, const Crop& crop, const PictureForm& to,
            uint8_t* out) {
  const int64_t channels = to.channels, row_samples = to.width * channels;
  const Axis rows = make_axis(crop.height, to.height), columns = make_axis(crop.width, to.width);
  const int64_t total = rows.total * columns.total;
  std::vector<int32_t> row(static_cast<size_t>(row_samples));
  std::vector<int64_t> sums(row.size());
  for (const Axis::Part& part : rows.parts) {
    std::fill(sums.begin(), sums.end(), 0);
    for (int64_t i = 0; i < part.count; ++i) {
      const int64_t y = crop.top + part.begin + i;
      resize_row(in + (y * in_width + crop.left) * channels, columns, channels, row.data());
      const int64_t weight = rows.weights[part.first + i];
      for (int64_t x = 0; x < row_samples; ++x) sums[x] += weight * row[x];
    }
    for (const int64_t sum : sums) *out++ = static_cast<uint8_t>((sum + total / 2) / total);
  }
}

}  // namespace

Result<PictureSize> parse_picture_size(std::string_view text) {
  const auto refuse = [&] {
    return invalid_input("'" + std::string(text) +
                         "' is not a size; write 32, or 28x32 (height x width), sides from 1 to " +
                         std::to_string(kMaxInputSide) + ", or 0: as the data are");
  };
  if (text == "0") return PictureSize{};
  const auto side = [](std::string_view digits) -> int64_t {
    int64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    return error == std::errc{} && stop == end && value <= kMaxInputSide ? value : 0;
  };
  const size_t cross = text.find('x');
  const bool square = cross == std::string_view::npos;
  const PictureSize size = {side(text.substr(0, cross)),
                            side(square ? text : text.substr(cross + 1))};
  if (size.height < 1 || size.width < 1) return refuse();
  return size;
}

std::string to_string(const PictureSize& size) {
  if (size.height == size.width) return std::to_string(size.height);
  return std::to_string(size.height) + "x" + std::to_string(size.width);
}

Crop centre_crop(const PictureSize& from, const PictureSize& to) {
  Crop crop{0, 0, from.height, from.width};
  // a * b / c, rounded, at least 1 and at most `most`.
  const auto scaled = [](int64_t a, int64_t b, int64_t c, int64_t most) {
    return std::clamp<int64_t>((2 * a * b + c) / (2 * c), 1, most);
  };
  if (from.width * to.height > from.height * to.width) {
    crop.width = scaled(from.height, to.width, to.height, from.width);
  } else {
    crop.height = scaled(from.width, to.height, to.width, from.height);
  }
  crop.top = (from.height - crop.height) / 2;
  crop.left = (from.width - crop.width) / 2;
  return crop;
}

void fit_picture(const uint8_t* in, const PictureForm& from, const PictureForm& to, uint8_t* out) {
  const bool right_size = from.height == to.height && from.width == to.width;
  if (right_size) {
    convert_channels(in, from.channels, from.height * from.width, to.channels, out);
    return;
  }
  std::vector<uint8_t> converted;
  if (from.channels != to.channels) {
    converted.resize(static_cast<size_t>(from.height * from.width * to.channels));
    convert_channels(in, from.channels, from.height * from.width, to.channels, converted.data());
    in = converted.data();
  }
  resize(in, from.width, centre_crop({from.height, from.width}, {to.height, to.width}), to, out);
}

}  // namespace mantissa
