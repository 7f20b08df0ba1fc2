// Peaks of plain C++: one integer multiply-add at a time; floats as the compiler arranges them.
#include <array>

#include "kernels/peak/peak.h"

namespace mantissa::kernels {
namespace {

int64_t integer_multiply_adds(int64_t rounds) noexcept {
  constexpr int kChains = 8;
  uint32_t factor = 3, term = 5;
  asm volatile("" : "+r"(factor), "+r"(term));
  std::array<uint32_t, kChains> sums{};
  for (int64_t round = 0; round < rounds; ++round) {
    for (uint32_t& sum : sums) {
      sum = sum * factor + term;
      asm volatile("" : "+r"(sum));  // keeps it in a register of its own: not one of a vector
    }
  }
  return rounds * kChains;
}

int64_t float_multiply_adds(int64_t rounds) noexcept {
  constexpr int kChains = 32;
  // Sums tend to term / (1 - factor), far from the slow ends of the range.
  float factor = 0.5F, term = 1.0F;
  asm volatile("" : "+m"(factor), "+m"(term));
  std::array<float, kChains> sums{};
  for (int64_t round = 0; round < rounds; ++round) {
    for (float& sum : sums) sum = sum * factor + term;
  }
  asm volatile("" : "+m"(sums));
  return rounds * kChains;
}

void read(const std::byte* from, int64_t bytes) noexcept {
  const auto* words = reinterpret_cast<const uint64_t*>(from);
  for (int64_t i = 0; i < bytes / 8; ++i) asm volatile("" : : "r"(words[i]));
}

void copy(std::byte* to, const std::byte* from, int64_t bytes) noexcept {
  const auto* words = reinterpret_cast<const uint64_t*>(from);
  auto* copies = reinterpret_cast<uint64_t*>(to);
  for (int64_t i = 0; i < bytes / 8; ++i) {
    uint64_t word = words[i];
    asm volatile("" : "+r"(word));  // or the loop would become a call of memcpy
    copies[i] = word;
  }
}

}  // namespace

const PeakKernels kPeakReference = {"peak_reference",
                                    kNeedsNothing,
                                    "plain integer multiply, add",
                                    "plain float multiply, add",
                                    integer_multiply_adds,
                                    float_multiply_adds,
                                    read,
                                    copy};

}  // namespace mantissa::kernels
