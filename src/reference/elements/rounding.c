#include "reference/elements/rounding.h"

#include "reference/elements/elements.h"

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
void ref_random_block(const RefRandomKey* key, uint32_t index, uint32_t* words) {
  uint32_t w0 = index, w1 = key->tensor, w2 = key->micro_batch, w3 = (uint32_t)key->stream;
  uint32_t key0 = (uint32_t)key->seed, key1 = (uint32_t)(key->seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = (uint64_t)0xD2511F53 * w0, product2 = (uint64_t)0xCD9E8D57 * w2;
    w0 = (uint32_t)(product2 >> 32) ^ w1 ^ key0;
    w1 = (uint32_t)product2;
    w2 = (uint32_t)(product0 >> 32) ^ w3 ^ key1;
    w3 = (uint32_t)product0;
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  words[0] = w0;
  words[1] = w1;
  words[2] = w2;
  words[3] = w3;
}

// The 16 random bits of element i.
static uint32_t random_half(const RefRandomKey* key, int64_t i) {
  uint32_t words[4];
  ref_random_block(key, (uint32_t)(i / 128 * 16 + i % 16), words);
  return words[i / 32 % 4] >> (16 * (i / 16 % 2)) & 0xffff;
}

int64_t ref_round_stochastically(const RefRoundStochastically* args, int64_t begin, int64_t end) {
  const int64_t limit = ref_mantissa_limit(args->out.bits);
  int64_t clipped = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t added = random_half(&args->key, i) >> (16 - args->shift);
    const int64_t rounded = (args->in[i] + added) >> args->shift;
    clipped += ref_store_narrow(args->out.data, args->out.bits <= 8 ? 1 : 2, i, rounded, limit);
  }
  return clipped;
}

REF_LOOP int64_t round_range(int bytes, int to_bytes, const RefRoundToNearest* args, int64_t begin,
                             int64_t end) {
  const int64_t limit = ref_mantissa_limit(args->out.bits);
  const void* restrict in = args->in.data;
  void* restrict out = args->out.data;
  const RefRound64 round = ref_round64(args->shift);
  int64_t clipped = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t rounded = ref_rounded64(&round, ref_load(in, bytes, i));
    clipped += ref_store_narrow(out, to_bytes, i, rounded, limit);
  }
  return clipped;
}

int64_t ref_round_to_nearest(const RefRoundToNearest* args, int64_t begin, int64_t end) {
  REF_WITH_BYTES(args->in.bits, bytes,
                 REF_WITH_SHORT_BYTES(args->out.bits, to_bytes,
                                      return round_range(bytes, to_bytes, args, begin, end)));
}

REF_LOOP uint64_t maximum_of(int bytes, const void* in, int64_t begin, int64_t end) {
  RefRange64 range = {0, 0};
  for (int64_t i = begin; i < end; ++i) ref_include64(&range, ref_load(in, bytes, i));
  return ref_statistics(range.low, range.high, 0).maximum;
}

uint64_t ref_maximum(RefConstSpan in, int64_t begin, int64_t end) {
  REF_WITH_BYTES(in.bits, bytes, return maximum_of(bytes, in.data, begin, end));
}

void ref_keep_mask(const RefRandomKey* key, uint32_t dropped, int64_t begin, int64_t end,
                   int8_t* keep) {
  for (int64_t i = begin; i < end; ++i) keep[i - begin] = random_half(key, i) >= dropped;
}

// Mantissas are symmetric, so that magnitudes fit 32 bits.
REF_LOOP void count_large(int bytes, RefConstSpan mantissas, int64_t begin, int64_t end,
                          int64_t* large) {
  enum { kBlock = 1 << 12 };  // which stays in the first-level cache
  for (int64_t block = begin; block < end; block += kBlock) {
    const int64_t stop = ref_smaller(end, block + kBlock);
    for (int k = 0; k < REF_FINER_EXPONENTS; ++k) {
      const int32_t from =
          mantissas.bits < k + 2 ? 1 : (int32_t)((int64_t)1 << (mantissas.bits - 2 - k));
      int32_t count = 0;
      for (int64_t i = block; i < stop; ++i) {
        const int32_t n = ref_load32(mantissas.data, bytes, i);
        count += (n < 0 ? -n : n) >= from;
      }
      large[k] += count;
    }
  }
}

void ref_count_large(RefConstSpan mantissas, int64_t begin, int64_t end, int64_t* large) {
  REF_WITH_BYTES(mantissas.bits, bytes, count_large(bytes, mantissas, begin, end, large));
}
