// Pictures that the examples draw themselves: crosses, rings, bars and the like, with noise.
#pragma once

#include <mantissa/training.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

struct Shapes {
  static constexpr int kSize = 12;
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  uint32_t state = 1;

  uint32_t random(uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % below;
  }

  static bool is_inside(int kind, int y, int x) {
    const int distance = y * y + x * x;
    switch (kind) {
      case 0:
        return std::abs(y) <= 1 || std::abs(x) <= 1;  // a cross
      case 1:
        return distance >= 9 && distance <= 20;  // a ring
      case 2:
        return std::abs(y) <= 1;  // a bar
      case 3:
        return std::abs(x) <= 1;  // a post
      case 4:
        return distance <= 10;  // a disc
      default:
        return std::abs(std::abs(y) - std::abs(x)) <= 1;  // an x
    }
  }

  // `count` pictures of the kinds from `first` on. Labels count from 0.
  Shapes(int count, int first, int kinds, uint32_t seed) : state(seed) {
    for (int n = 0; n < count; ++n) {
      const int label = static_cast<int>(random(static_cast<uint32_t>(kinds)));
      const int y0 = 5 + static_cast<int>(random(3)), x0 = 5 + static_cast<int>(random(3));
      labels.push_back(label);
      for (int y = 0; y < kSize; ++y) {
        for (int x = 0; x < kSize; ++x) {
          const bool inside = std::abs(y - y0) <= 5 && std::abs(x - x0) <= 5 &&
                              is_inside(first + label, y - y0, x - x0);
          pixels.push_back(static_cast<uint8_t>((inside ? 110 : 40) + random(110)));
        }
      }
    }
  }

  mantissa::ArraySet arrays() const {
    using mantissa::Elements;
    return {static_cast<int64_t>(labels.size()),
            {{"pixels", Elements::kUint8, {kSize, kSize, 1}, pixels.data()},
             {"labels", Elements::kInt32, {}, labels.data()}}};
  }
};
