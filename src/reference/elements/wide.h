// Wide results of 64 bits, and operands as bytes that take several products: the rows that formats
// of more than 8 bits need besides (docs/decisions/0023-wide-values.md).
//
// A function works on the elements [begin, end) of its operands, or on all of them.
#pragma once

#include "reference/types.h"

// out = saturate(rescale_rne(wide, shift), +-(2^(bits-1) - 1)); |wide| <= 2^62. Without `out` the
// maximum only.
typedef struct RefNarrowWide {
  const int64_t* wide REF_CXX(= nullptr);
  int shift REF_CXX(= 0);
  RefSpan out;  // of up to 32 bits
} RefNarrowWide;

// A byte of each mantissa as int8: of plane 1 the upper one, of plane 0 the lower one less 128. A
// mantissa is 256 * upper + lower + 128.
typedef struct RefPlane {
  const int16_t* in REF_CXX(= nullptr);
  int plane REF_CXX(= 0);
  int8_t* out REF_CXX(= nullptr);
} RefPlane;

// sums[pixel, g] = the sum of the pixel's channels of group g, which must fit int32. Elements are
// pixels.
typedef struct RefGroupSums {
  RefConstSpan in;  // [pixels, G, channels]
  int64_t groups REF_CXX(= 1), channels REF_CXX(= 1);
  int32_t* sums REF_CXX(= nullptr);
} RefGroupSums;

// sums[pixel, g, o] = constants[g, o] + factor * of_groups[pixel, g]. Elements are pixels.
typedef struct RefFirstSums {
  const int64_t* constants REF_CXX(= nullptr);
  const int32_t* of_groups REF_CXX(= nullptr);  // or null, as if 0
  int64_t factor REF_CXX(= 1);
  int64_t groups REF_CXX(= 1), channels REF_CXX(= 1);  // of a group
  int64_t* sums REF_CXX(= nullptr);
} RefFirstSums;

typedef struct RefTap {
  RefConstSpan in;                            // of its first pixel
  const int64_t* weights REF_CXX(= nullptr);  // [channels], of up to 16 bits
} RefTap;

// sums[pixel, c] = first[c] + the sum over taps of in[pixel, c] * weights[c]. A tap's pixels lie
// `in_step` elements apart, the sums' pixels `sum_step`. Exact while it fits int64.
typedef struct RefChannelProducts {
#ifdef __cplusplus
  using Tap = RefTap;
#endif
  const RefTap* taps REF_CXX(= nullptr);  // of one width
  int64_t tap_count REF_CXX(= 0);
  const int64_t* first REF_CXX(= nullptr);  // [channels]
  int64_t channels REF_CXX(= 1), pixels REF_CXX(= 0);
  int64_t in_step REF_CXX(= 1), sum_step REF_CXX(= 1);
  int64_t* sums REF_CXX(= nullptr);
} RefChannelProducts;

// wide = rescale_rne(in, shift), or the sum of that and `wide`: mantissas at another exponent.
typedef struct RefRescaled {
  RefConstSpan in;  // of up to 32 bits
  int shift REF_CXX(= 0);
  bool adds REF_CXX(= false);
  int64_t* wide REF_CXX(= nullptr);
} RefRescaled;

// wide = sums * 2^shifts: sums of channels at one exponent. Shifts are 0 to 29.
typedef struct RefShiftedSums {
  const int32_t *sums REF_CXX(= nullptr), *shifts REF_CXX(= nullptr);
  int64_t* wide REF_CXX(= nullptr);
} RefShiftedSums;

// wide = q * Phi(q * 2^exponent), Phi in Q30 (normal.h): GELU.
typedef struct RefGelu {
  RefConstSpan in;  // of up to 16 bits
  int exponent REF_CXX(= 0);
  int64_t* wide REF_CXX(= nullptr);
} RefGelu;

// wide = rescale_rne(a * b, shift).
typedef struct RefProducts {
  RefConstSpan a, b;  // of up to 16 bits
  int shift REF_CXX(= 0);
  int64_t* wide REF_CXX(= nullptr);
} RefProducts;

REF_BEGIN

RefStatistics ref_narrow_wide(const RefNarrowWide*, int64_t begin, int64_t end) REF_NOEXCEPT;
// sums += part * 2^shift, `part` of 32 or 64 bits.
void ref_add_shifted(const RefSums* part, int shift, int64_t* sums, int64_t begin,
                     int64_t end) REF_NOEXCEPT;
void ref_plane(const RefPlane*, int64_t begin, int64_t end) REF_NOEXCEPT;
void ref_group_sums(const RefGroupSums*, int64_t begin, int64_t end) REF_NOEXCEPT;
// sums += part, modulo 2^32.
void ref_add_sums(const int32_t* part, int32_t* sums, int64_t begin, int64_t end) REF_NOEXCEPT;
void ref_first_sums(const RefFirstSums*, int64_t begin, int64_t end) REF_NOEXCEPT;
void ref_channel_products(const RefChannelProducts*) REF_NOEXCEPT;
void ref_rescale(const RefRescaled*, int64_t begin, int64_t end) REF_NOEXCEPT;
void ref_shift_sums(const RefShiftedSums*, int64_t begin, int64_t end) REF_NOEXCEPT;
void ref_products(const RefProducts*, int64_t begin, int64_t end) REF_NOEXCEPT;
void ref_gelu(const RefGelu*, int64_t begin, int64_t end) REF_NOEXCEPT;

REF_END
