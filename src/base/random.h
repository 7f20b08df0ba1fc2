// Counter-based random numbers: a pure function of a key and a counter, so that the order of draws
// does not matter. Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011).
#pragma once

#include <array>
#include <cstdint>

namespace mantissa {

// The purpose of a stream of random numbers; part of the key, so streams never overlap.
enum class RandomStream : uint32_t {
  kInitialise = 1,
  kShuffle = 2,
  kAugment = 3,
  kRound = 4,
  kSynthetic = 5,
  kDropout = 6,
  kUpdate = 7,
  kGenerate = 8,
  kMask = 9
};

// One block of Philox4x32-10.
constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                         std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// 64 uniform bits for (seed, stream, a, b): for example a = epoch, b = example.
constexpr uint64_t random_bits(uint64_t seed, RandomStream stream, uint32_t a, uint64_t b) {
  const auto block = philox(
      {static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32), a, static_cast<uint32_t>(stream)},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{block[1]} << 32 | block[0];
}

// A uniform number in [0, bound) from 64 random bits (bias below bound / 2^64).
constexpr uint64_t uniform_below(uint64_t bits, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

}  // namespace mantissa
