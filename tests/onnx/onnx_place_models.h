// Models over positions, pixels or the places of volumes, and their import compared with a plain
// evaluation.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/onnx/onnx_sequence_models.h"

namespace mantissa::testing {

// Mantissas at 2^-12 of examples with these dimensions, channels last.
inline std::vector<int16_t> signal(int64_t count) {
  std::vector<int16_t> all(static_cast<size_t>(count));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<int16_t>(uniform("signal", static_cast<int64_t>(i)) * 16384 - 8192);
  }
  return all;
}

// The model is given [N, C, places], or with the channels last.
inline ImportedNetwork expect_signal(Model& model, const std::string& output, const Wholes& places,
                              int64_t channels, bool channels_last = false) {
  int64_t count = 1;
  for (const int64_t size : places) count *= size;
  const std::vector<int16_t> examples = signal(kBatch * count * channels);
  std::vector<float> x(examples.size());
  for (int64_t i = 0; i < std::ssize(x); ++i) {
    const int64_t c = i % channels, place = i / channels % count, n = i / channels / count;
    x[channels_last ? i : (n * channels + c) * count + place] =
        static_cast<float>(examples[i]) * 0x1p-12F;
  }
  Wholes dims = places;
  dims.insert(channels_last ? dims.end() : dims.begin(), channels);
  dims.insert(dims.begin(), kBatch);
  return compare(model, output, tensor_of("x", kReal, dims, std::move(x)), examples, 0);
}

inline std::string head(Model& m, const std::string& from, int64_t channels) {
  return m.add("Gemm", "fc",
               {from, m.weights("fc.weight", {5, channels}), m.weights("fc.b", {5})},
               {{"transB", int64_t{1}}});
}

}  // namespace mantissa::testing
