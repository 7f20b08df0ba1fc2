// Shared by the forward passes of convolution, with sums of 32 bits and of 64.
#pragma once

#include <algorithm>
#include <climits>
#include <type_traits>

#include "base/checked.h"
#include "kernels/convolution/pieces.h"
#include "ops/convolutions/convolution_shape.h"
#include "ops/convolutions/sum_exponents.h"
#include "ops/wide_values.h"

namespace mantissa::ops {

// 64-bit numbers per output channel, aligned.
inline int64_t channel_bytes(int64_t channels) {
  return round_up<int64_t>(channels * int64_t{sizeof(int64_t)}, 64);
}

// The largest of scratch_bytes(chunk) over chunks of up to this many images.
template <typename ScratchBytes>
int64_t chunk_scratch_bytes(kernels::ConvolutionShape shape, int64_t images,
                            const ScratchBytes& scratch_bytes) {
  return kernels::most_of_pieces(shape.batch, images, [&](int64_t batch) {
    shape.batch = batch;
    return static_cast<int64_t>(scratch_bytes(shape));
  });
}

// Parts of a forward pass's workspace: per-channel arrays, then the sums of a chunk of images.
template <typename Sum>
struct SumWorkspace {
  using Magnitude = std::make_unsigned_t<Sum>;

  Sum* bias;          // aligned to the sums' exponents
  int32_t* shifts;    // of channels, if they differ
  Magnitude* maxima;  // of channels, if they differ
  Sum* sums;
  SumWorkspace(std::byte* base, int64_t channels)
      : bias(reinterpret_cast<Sum*>(base)),
        shifts(reinterpret_cast<int32_t*>(base + channel_bytes(channels))),
        maxima(reinterpret_cast<Magnitude*>(base + 2 * channel_bytes(channels))),
        sums(reinterpret_cast<Sum*>(base + 3 * channel_bytes(channels))) {}
  static int64_t bytes(int64_t channels, int64_t sums) {
    return 3 * channel_bytes(channels) + sums * int64_t{sizeof(Sum)};
  }
};

// The bias at the sums' exponents, rounded to nearest even and clipped; null without a bias.
template <typename Sum>
const Sum* align_bias(const OpContext& c, const SumExponents& exponents, int64_t limit,
                      Sum* aligned) {
  if (c.parameters.size() < 2) return nullptr;
  const Tensor& bias = c.parameters[1].mantissa;
  const Mantissas mantissas(bias);
  for (int64_t o = 0; o < bias.count(); ++o) {
    const int64_t wide = rescale_rne(mantissas[o], exponents.of(o) - *bias.exponent);
    aligned[o] = static_cast<Sum>(saturate(wide, limit));
    *c.output().saturated += aligned[o] != wide;
  }
  return aligned;
}

// Sets the output's exponent to the one that holds all channels. For guarded outputs also sets each
// channel's exponent, as an offset from it. Without a guard channels of zeros have no influence.
template <typename Magnitude>
void choose_exponents(const OpContext& c, const Magnitude* maxima, const SumExponents& exponents) {
  const int64_t channels = c.output().shape.last();
  const bool guarded = c.output().is_guarded();
  const auto wanted = [&](int64_t o) {
    return exponents.of(o) + exact_shift(maxima[o], c.output().bits);
  };
  int largest = INT_MIN;
  for (int64_t o = 0; o < channels; ++o) {
    if (guarded || maxima[o] != 0) largest = std::max(largest, wanted(o));
  }
  set_exponent(c, c.output(), largest == INT_MIN ? zero_exponent(c.output().bits) : largest);
  for (int64_t o = 0; o < channels && guarded; ++o) {
    c.output().channel_exponent[o] =
        static_cast<int8_t>(std::max(wanted(o) - largest, -kMostChannelShift));
  }
}

// shifts[o] from the sums' exponents to the output's, at most `most`: from there on everything is
// rounded away. Freezing leaves no exponents below the sums'.
inline void choose_channel_shifts(const OpContext& c, const SumExponents& exponents, int most,
                                  int32_t* shifts) {
  for (int64_t o = 0; o < c.output().shape.last(); ++o) {
    const int offset = c.output().is_guarded() ? c.output().channel_exponent[o] : 0;
    shifts[o] = std::clamp(*c.output().exponent + offset - exponents.of(o), 0, most);
  }
}

// Counts sums for kCalibrate, starting with sums[0] of output 0: per channel if the output is
// guarded.
template <typename Sum>
void count_sums(const OpContext& c, const Sum* sums, int64_t count, const SumExponents& exponents) {
  const int64_t channels = c.output().shape.last();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t histogram = c.output().is_guarded() ? i % channels : 0;
    count_wide(c.output().histogram + histogram * kHistogramBins, sums[i],
               exponents.of(i % channels), c.output());
  }
}

}  // namespace mantissa::ops
