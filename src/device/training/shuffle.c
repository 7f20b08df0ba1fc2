#include "device/training/shuffle.h"

// A uniform number in [0, bound): (bits * bound) >> 64 by halves.
static uint32_t below(uint32_t low, uint32_t high, uint32_t bound) {
  const uint64_t carried = ((uint64_t)low * bound) >> 32;
  return (uint32_t)(((uint64_t)high * bound + carried) >> 32);
}

void dev_shuffle(uint64_t seed, uint32_t epoch, uint32_t* order, uint32_t count) {
  enum { kShuffle = 2 };
  const RefRandomKey key = {.stream = kShuffle, .seed = seed, .micro_batch = epoch, .tensor = 0};
  for (uint32_t i = 0; i < count; ++i) order[i] = i;
  for (uint32_t i = count; i > 1; --i) {
    uint32_t words[4];
    ref_random_block(&key, i - 1, words);
    const uint32_t other = below(words[0], words[1], i), last = order[i - 1];
    order[i - 1] = order[other];
    order[other] = last;
  }
}
