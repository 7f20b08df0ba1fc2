#include "reference/elements/wide.h"

#include "reference/elements/elements.h"
#include "reference/numerics/normal.h"

static uint64_t maximum_of(const int64_t* wide, int64_t begin, int64_t end) {
  RefRange64 range = {0, 0};
  for (int64_t i = begin; i < end; ++i) ref_include64(&range, wide[i]);
  return ref_statistics(range.low, range.high, 0).maximum;
}

REF_LOOP RefStatistics narrow_range(int bytes, const RefNarrowWide* args, int64_t begin,
                                    int64_t end) {
  const int64_t* restrict wide = args->wide;
  void* restrict out = args->out.data;
  const int64_t limit = ref_mantissa_limit(args->out.bits);
  RefRange64 range = {0, 0};
  int64_t saturated = 0;
  for (int64_t i = begin; i < end; ++i) {
    ref_include64(&range, wide[i]);
    saturated += ref_store_narrow(out, bytes, i, ref_rescale_rne(wide[i], args->shift), limit);
  }
  return ref_statistics(range.low, range.high, saturated);
}

RefStatistics ref_narrow_wide(const RefNarrowWide* args, int64_t begin, int64_t end) {
  if (args->out.data == NULL) {
    const RefStatistics found = {maximum_of(args->wide, begin, end), 0};
    return found;
  }
  REF_WITH_BYTES(args->out.bits, bytes, return narrow_range(bytes, args, begin, end));
}

// A sum fits int64 where its exact value does: left shifts modulo 2^64.
void ref_add_shifted(const RefSums* part, int shift, int64_t* sums, int64_t begin, int64_t end) {
  const int64_t by = (int64_t)1 << shift;
  REF_WITH_SUM_BYTES(
      part->bits, bytes,
      for (int64_t i = begin; i < end; ++i) { sums[i] += ref_load(part->data, bytes, i) * by; });
}

void ref_plane(const RefPlane* args, int64_t begin, int64_t end) {
  const int16_t* restrict in = args->in;
  int8_t* restrict out = args->out;
  const bool upper = args->plane == 1;
  for (int64_t i = begin; i < end; ++i) {
    out[i] = (int8_t)(upper ? in[i] >> 8 : (in[i] & 255) - 128);
  }
}

REF_LOOP void sums_of_groups(int bytes, const RefGroupSums* args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    int32_t sum = 0;
    for (int64_t c = 0; c < args->channels; ++c) {
      sum += (int32_t)ref_load(args->in.data, bytes, i * args->channels + c);
    }
    args->sums[i] = sum;
  }
}

void ref_group_sums(const RefGroupSums* args, int64_t begin, int64_t end) {
  REF_WITH_SHORT_BYTES(args->in.bits, bytes,
                       sums_of_groups(bytes, args, begin * args->groups, end * args->groups));
}

void ref_add_sums(const int32_t* part, int32_t* sums, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)part[i]);
}

void ref_first_sums(const RefFirstSums* args, int64_t begin, int64_t end) {
  const int64_t outputs = args->groups * args->channels;
  for (int64_t pixel = begin; pixel < end; ++pixel) {
    int64_t* sums = args->sums + pixel * outputs;
    for (int64_t g = 0; g < args->groups; ++g) {
      const int64_t of_group =
          args->of_groups == NULL ? 0 : args->of_groups[pixel * args->groups + g];
      const int64_t more = args->factor * of_group;
      for (int64_t o = g * args->channels; o < (g + 1) * args->channels; ++o) {
        sums[o] = args->constants[o] + more;
      }
    }
  }
}

REF_LOOP void products_of_channels(int bytes, const RefChannelProducts* args) {
  for (int64_t pixel = 0; pixel < args->pixels; ++pixel) {
    int64_t* sums = args->sums + pixel * args->sum_step;
    for (int64_t c = 0; c < args->channels; ++c) {
      int64_t sum = args->first[c];
      for (int64_t tap = 0; tap < args->tap_count; ++tap) {
        const RefTap* at = &args->taps[tap];
        sum += ref_load(at->in.data, bytes, pixel * args->in_step + c) * at->weights[c];
      }
      sums[c] = sum;
    }
  }
}

void ref_channel_products(const RefChannelProducts* args) {
  const int bits = args->tap_count == 0 ? 8 : args->taps[0].in.bits;
  REF_WITH_SHORT_BYTES(bits, bytes, products_of_channels(bytes, args));
}

REF_LOOP void rescale_range(int bytes, const RefRescaled* args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t rescaled = ref_rescale_rne(ref_load(args->in.data, bytes, i), args->shift);
    args->wide[i] = args->adds ? args->wide[i] + rescaled : rescaled;
  }
}

void ref_rescale(const RefRescaled* args, int64_t begin, int64_t end) {
  REF_WITH_BYTES(args->in.bits, bytes, rescale_range(bytes, args, begin, end));
}

// |sum| < 2^31 and a shift of at most 29: below 2^60.
void ref_shift_sums(const RefShiftedSums* args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    args->wide[i] = args->sums[i] * ((int64_t)1 << args->shifts[i]);
  }
}

void ref_products(const RefProducts* args, int64_t begin, int64_t end) {
  const int a_bytes = args->a.bits <= 8 ? 1 : 2, b_bytes = args->b.bits <= 8 ? 1 : 2;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t product =
        ref_load(args->a.data, a_bytes, i) * ref_load(args->b.data, b_bytes, i);
    args->wide[i] = ref_rescale_rne(product, args->shift);
  }
}

void ref_gelu(const RefGelu* args, int64_t begin, int64_t end) {
  REF_WITH_SHORT_BYTES(
      args->in.bits, bytes, for (int64_t i = begin; i < end; ++i) {
        const int64_t q = ref_load(args->in.data, bytes, i);
        args->wide[i] = q * ref_normal_probability_q30(q, args->exponent);
      });
}
