// Discrete Fourier transforms and the windows and filters that go with them.
#include <cmath>
#include <numbers>

#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// The one whole number of an input.
Result<int64_t> number_of(OpCall& call, size_t i) {
  MANTISSA_ASSIGN(const std::vector<int64_t> given, call.whole(i));
  if (given.size() != 1) {
    return invalid_input("input " + std::to_string(i) + " is no single number");
  }
  return given[0];
}

// cos and sin of all multiples of a turn divided by `size`.
struct Turns {
  std::vector<double> cosines, sines;
};

Turns turns_of(int64_t size) {
  Turns turns;
  for (int64_t i = 0; i < size; ++i) {
    const double angle = kTwoPi * static_cast<double>(i) / static_cast<double>(size);
    turns.cosines.push_back(std::cos(angle));
    turns.sines.push_back(std::sin(angle));
  }
  return turns;
}

// Real and imaginary numbers of one transform; numbers that are not there are 0.
struct Signal {
  std::vector<double> real, imaginary;
};

// The first `bins` of the transform, by its definition. `sign` is -1 forwards, 1 backwards.
template <typename T>
void transform(const Turns& turns, const Signal& in, int sign, double factor, int64_t bins,
               int64_t step, T* out) {
  const auto size = static_cast<int64_t>(in.real.size());
  for (int64_t k = 0; k < bins; ++k) {
    double real = 0;
    double imaginary = 0;
    int64_t turn = 0;
    for (int64_t i = 0; i < size; ++i) {
      const double c = turns.cosines[turn];
      const double s = sign * turns.sines[turn];
      real += in.real[i] * c - in.imaginary[i] * s;
      imaginary += in.real[i] * s + in.imaginary[i] * c;
      turn = (turn + k) % size;
    }
    out[k * step] = static_cast<T>(real * factor);
    out[k * step + 1] = static_cast<T>(imaginary * factor);
  }
}

constexpr int64_t kLongestTransform = 1 << 16;

Status dft(OpCall& call) {
  const int64_t rank = call.rank(0);
  int64_t axis = call.integer("axis", 1);
  if (call.opset() >= 20) {
    axis = -2;
    if (call.has(2)) {
      MANTISSA_ASSIGN(axis, number_of(call, 2));
    }
  }
  MANTISSA_ASSIGN(axis, call.axis(axis, rank));
  const bool inverse = call.integer("inverse", 0) != 0;
  const bool onesided = call.integer("onesided", 0) != 0;
  const Dims& from = call.dims(0);
  if (axis == rank - 1 || (from.back() != 1 && from.back() != 2) || (inverse && onesided)) {
    return invalid_input("a transform of dims " + to_text(from) + " along axis " +
                         std::to_string(axis) + (inverse && onesided ? ", of one side" : ""));
  }
  int64_t size = from[axis];
  if (call.has(1)) {
    MANTISSA_ASSIGN(size, number_of(call, 1));
  }
  if (size < 1 || size > kLongestTransform) {
    return invalid_input("a transform of length " + std::to_string(size));
  }
  Dims dims = from;
  dims[axis] = onesided ? size / 2 + 1 : size;
  dims.back() = 2;
  return with_type(Floats(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    const int64_t parts = from.back();
    const int64_t inner = count_of({from.begin() + axis + 1, from.end() - 1});
    const int64_t outer = count_of({from.begin(), from.begin() + axis});
    const Turns turns = turns_of(size);
    call.pool().parallel_for(outer * inner, [&](int64_t row, int) {
      Signal signal{std::vector<double>(size), std::vector<double>(size)};
      const T* in = call.data<T>(0) + (row / inner * from[axis] * inner + row % inner) * parts;
      for (int64_t i = 0; i < std::min(size, from[axis]); ++i) {
        signal.real[i] = in[i * inner * parts];
        if (parts == 2) signal.imaginary[i] = in[i * inner * parts + 1];
      }
      transform(turns, signal, inverse ? 1 : -1, inverse ? 1.0 / static_cast<double>(size) : 1.0,
                dims[axis], inner * 2,
                call.out<T>(0) + (row / inner * dims[axis] * inner + row % inner) * 2);
    });
    return {};
  });
}

Status stft(OpCall& call) {
  const Dims& from = call.dims(0);
  if (from.size() != 3 || (from[2] != 1 && from[2] != 2)) {
    return invalid_input("a signal of dims " + to_text(from));
  }
  const bool onesided = call.integer("onesided", 1) != 0;
  if (onesided && from[2] == 2) return invalid_input("one side of a complex signal");
  MANTISSA_ASSIGN(const int64_t step, number_of(call, 1));
  if (!call.has(2) && !call.has(3)) return invalid_input("neither a window nor its length");
  int64_t size = call.has(2) ? count_of(call.dims(2)) : 0;
  if (call.has(3)) {
    MANTISSA_ASSIGN(size, number_of(call, 3));
  }
  if (step < 1 || size < 1 || size > std::min(from[1], kLongestTransform) ||
      (call.has(2) && (call.dims(2) != Dims{size} || call.type(2) != call.type(0)))) {
    return invalid_input("frames of length " + std::to_string(size) + " every " +
                         std::to_string(step) + " of a signal of dims " + to_text(from));
  }
  const int64_t frames = (from[1] - size) / step + 1;
  const int64_t bins = onesided ? size / 2 + 1 : size;
  return with_type(Floats(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), {from[0], frames, bins, 2}));
    if (call.shapes_only()) return {};
    const Turns turns = turns_of(size);
    call.pool().parallel_for(from[0] * frames, [&](int64_t row, int) {
      Signal signal{std::vector<double>(size), std::vector<double>(size)};
      const T* in = call.data<T>(0) + (row / frames * from[1] + row % frames * step) * from[2];
      for (int64_t i = 0; i < size; ++i) {
        const double factor = call.has(2) ? static_cast<double>(call.data<T>(2)[i]) : 1.0;
        signal.real[i] = factor * in[i * from[2]];
        if (from[2] == 2) signal.imaginary[i] = factor * in[i * 2 + 1];
      }
      transform(turns, signal, -1, 1.0, bins, 2, call.out<T>(0) + row * bins * 2);
    });
    return {};
  });
}

Result<ElementType> output_type(OpCall& call) {
  const int64_t given = call.integer("output_datatype", 1);
  if (given < 0 || given > UINT8_MAX) return invalid_input("an unknown output_datatype");
  return static_cast<ElementType>(given);
}

// A window of cosines: first - second cos(x) + third cos(2 x).
Status window(OpCall& call, double first, double second, double third) {
  MANTISSA_ASSIGN(const int64_t size, number_of(call, 0));
  MANTISSA_ASSIGN(const ElementType type, output_type(call));
  if (size < 0) return invalid_input("a window of length " + std::to_string(size));
  const auto period = static_cast<double>(call.integer("periodic", 1) != 0 ? size : size - 1);
  return with_type(Numbers(), type, [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, type, {size}));
    if (call.shapes_only()) return {};
    for (int64_t i = 0; i < size; ++i) {
      const double x = kTwoPi * static_cast<double>(i) / period;
      call.out<T>(0)[i] = static_cast<T>(first - second * std::cos(x) + third * std::cos(2 * x));
    }
    return {};
  });
}

Status hann_window(OpCall& call) { return window(call, 0.5, 0.5, 0); }
Status hamming_window(OpCall& call) { return window(call, 25.0 / 46, 21.0 / 46, 0); }
Status blackman_window(OpCall& call) { return window(call, 0.42, 0.5, 0.08); }

// Edges of the triangles, equally far from each other on the mel scale, in bins of the spectrum.
std::vector<int64_t> mel_edges(int64_t bands, double length, double rate, double low, double high) {
  const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (to_mel(high) - to_mel(low)) / static_cast<double>(bands + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double mel = static_cast<double>(i) * step + to_mel(low);
    const double hertz = 700 * (std::pow(10, mel / 2595) - 1);
    edges.push_back(static_cast<int64_t>(std::floor((length + 1) * hertz / rate)));
  }
  return edges;
}

Status mel_weight_matrix(OpCall& call) {
  int64_t whole[3];
  for (size_t i = 0; i < 3; ++i) {
    MANTISSA_ASSIGN(whole[i], number_of(call, i));
  }
  const int64_t bands = whole[0], length = whole[1], rate = whole[2];
  float hertz[2];
  for (size_t i = 0; i < 2; ++i) {
    MANTISSA_ASSIGN(const std::vector<float> given, call.real_numbers(3 + i));
    if (given.size() != 1) return invalid_input("an edge that is no single number");
    hertz[i] = given[0];
  }
  MANTISSA_ASSIGN(const ElementType type, output_type(call));
  if (bands < 1 || bands > 1 << 20 || length < 1 || length > 1 << 20 || rate < 1 ||
      !(hertz[0] >= 0 && hertz[0] <= hertz[1] && hertz[1] < 1e9f)) {
    return invalid_input("sizes or edges below 0, or huge");
  }
  const int64_t bins = length / 2 + 1;
  const std::vector<int64_t> edges =
      mel_edges(bands, static_cast<double>(length), static_cast<double>(rate), hertz[0], hertz[1]);
  if (edges.back() >= bins) return invalid_input("an upper edge above half the sample rate");
  return with_type(Floats(), type, [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, type, {bins, bands}));
    if (call.shapes_only()) return {};
    for (int64_t i = 0; i < bands; ++i) {
      const int64_t left = edges[i];
      const int64_t centre = edges[i + 1];
      const int64_t right = edges[i + 2];
      if (centre == left) call.out<T>(0)[centre * bands + i] = 1;
      for (int64_t j = left; j <= centre && centre > left; ++j) {
        call.out<T>(0)[j * bands + i] =
            static_cast<T>(static_cast<double>(j - left) / static_cast<double>(centre - left));
      }
      for (int64_t j = centre; j < right; ++j) {
        call.out<T>(0)[j * bands + i] =
            static_cast<T>(static_cast<double>(right - j) / static_cast<double>(right - centre));
      }
    }
    return {};
  });
}

constexpr OpRow kSignalRows[] = {
    {"DFT", 17, dft, {1, 2}, "axis inverse onesided", 19},
    {"DFT", 20, dft, {1, 3}, "inverse onesided"},
    {"STFT", 17, stft, {2, 4}, "onesided"},
    {"HannWindow", 17, hann_window, 1, "output_datatype periodic"},
    {"HammingWindow", 17, hamming_window, 1, "output_datatype periodic"},
    {"BlackmanWindow", 17, blackman_window, 1, "output_datatype periodic"},
    {"MelWeightMatrix", 17, mel_weight_matrix, 5, "output_datatype"},
};

}  // namespace

std::span<const OpRow> signal_operators() { return kSignalRows; }

}  // namespace mantissa::onnx
