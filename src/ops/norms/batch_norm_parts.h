// Common to the forward and the backward pass of batch norm: their memory, and the units of their
// operands.
#pragma once

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "kernels/common/parallel_ranges.h"
#include "numerics/real.h"
#include "ops/attributes.h"
#include "ops/wide_values.h"

namespace mantissa::ops {

// Rows below which a thread is not worth waking.
inline int64_t batch_norm_grain(int64_t channels) {
  constexpr int64_t kElements = 16384;
  return std::max<int64_t>(1, kElements / channels);
}

// Channels below which a thread is not worth waking for their scalars, some 100 ns each.
constexpr int64_t kChannelGrain = 64;

// The largest number that a pass over channels found: their integers must hold it.
struct Peak {
  Real value;
  bool is_finite = true;

  void add(const Real& number) {
    is_finite &= number.is_finite();
    value = std::max(value, abs(number));
  }
};

// Calls function(begin, end) on channels, on all threads.
template <typename Function>
void for_channels(const OpContext& c, int64_t channels, Function&& function) {
  kernels::parallel_ranges(*c.kernel.pool, channels, kChannelGrain,
                           [&](int64_t begin, int64_t end, int64_t) { function(begin, end); });
}

// The same; returns the largest of the peaks.
template <typename Function>
Peak peak_of_channels(const OpContext& c, int64_t channels, Function&& function) {
  std::array<Peak, kernels::kMaximumParts> partial;
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, channels, kChannelGrain,
      [&](int64_t begin, int64_t end, int64_t part) { partial[part] = function(begin, end); });
  Peak total;
  for (int64_t part = 0; part < parts; ++part) {
    total.value = std::max(total.value, partial[part].value);
    total.is_finite &= partial[part].is_finite;
  }
  return total;
}

// Per-channel arrays in a block of memory, one after the other, each aligned to 64 bytes.
class Carve {
 public:
  explicit Carve(std::byte* base) : next_(base) {}
  template <typename T>
  T* take(int64_t count) {
    if (next_ == nullptr) return nullptr;  // inference saves nothing
    T* start = reinterpret_cast<T*>(next_);
    next_ += round_up<int64_t>(count * int64_t{sizeof(T)}, 64);
    return start;
  }

 private:
  std::byte* next_;
};

inline int64_t carved_bytes(int64_t count, int64_t element) {
  return round_up<int64_t>(count * element, 64);
}

// Written forward, read backward. Reals are kept as doubles, which hold them exactly.
struct BatchNormSaved {
  double* mean;           // of q
  double* inverse_sigma;  // 1 / sigma_q
  int64_t* sum_grad;      // sum of dy, by backward_weights
  int64_t* sum_grad_in;   // sum of dy * q, by backward_weights
  BatchNormSaved(std::byte* base, int64_t channels) {
    Carve carve(base);
    mean = carve.take<double>(channels);
    inverse_sigma = carve.take<double>(channels);
    sum_grad = carve.take<int64_t>(channels);
    sum_grad_in = carve.take<int64_t>(channels);
  }
  static int64_t bytes(int64_t channels) { return 4 * carved_bytes(channels, 8); }
};

struct BatchNormWorkspace {
  int32_t* multiplier;
  int32_t* in_multiplier;
  int64_t* offset;
  int64_t* partial;  // 3 arrays of int64 per part: two sums, and the extremes as int32 pairs
  Real* reals;       // 3 per channel, in place of the sums of all parts but the first
  BatchNormWorkspace(std::byte* base, int64_t channels) {
    Carve carve(base);
    multiplier = carve.take<int32_t>(channels);
    in_multiplier = carve.take<int32_t>(channels);
    offset = carve.take<int64_t>(channels);
    partial = carve.take<int64_t>(3 * kernels::kMaximumParts * channels);
    static_assert(3 * sizeof(Real) <= (kernels::kMaximumParts - 1) * 3 * sizeof(int64_t));
    reals = partial == nullptr ? nullptr : reinterpret_cast<Real*>(partial + 3 * channels);
  }
  static int64_t bytes(int64_t channels) {
    return 2 * carved_bytes(channels, 4) + carved_bytes(channels, 8) +
           carved_bytes(3 * kernels::kMaximumParts * channels, 8);
  }
};

// An inverted batch norm also keeps 1 / sigma in real units, the unit of its negative values, and
// the input of those channels that its output does not determine well enough.
struct InversionSaved {
  static constexpr int32_t kInverted = -1, kLeftOut = -2;  // for want of room

  double* inverse_deviation;  // per channel
  int32_t* place;             // per channel: kInverted, kLeftOut, or its place among the kept
  int32_t* channel;           // of each kept one
  struct Header {
    int64_t count = 0;           // of kept channels
    bool is_wide = false;        // values are int16, not int8
    int32_t negative_shift = 0;  // of batch_norm_forward
  };
  Header* header;
  std::byte* values;  // their mantissas, row by row, as wide as the input's
  InversionSaved(std::byte* base, const BatchNormAttributes& attributes, int64_t channels) {
    Carve carve(base + BatchNormSaved::bytes(channels));
    inverse_deviation = carve.take<double>(channels);
    place = carve.take<int32_t>(channels);
    channel = carve.take<int32_t>(most_kept(attributes, channels));
    header = carve.take<Header>(1);
    values = carve.take<std::byte>(0);
  }
  // Room for one out of every `room` channels.
  static int64_t most_kept(const BatchNormAttributes& attributes, int64_t channels) {
    return divide_up<int64_t>(channels, attributes.room);
  }
  static int64_t bytes(const BatchNormAttributes& attributes, int64_t channels, int64_t rows,
                       int64_t mantissa_bytes) {
    const int64_t kept = most_kept(attributes, channels);
    return carved_bytes(channels, 8) + carved_bytes(channels, 4) + carved_bytes(kept, 4) +
           carved_bytes(1, sizeof(Header)) + carved_bytes(kept * rows, mantissa_bytes);
  }
};

// Channel c of a parameter as a real number.
inline Real real(const Tensor& tensor, int64_t c) {
  return ldexp(Real(int64_t{tensor.as<int16_t>()[c]}), *tensor.exponent);
}

// Exponent of channel c of the input.
inline int channel_exponent(const Tensor& input, int64_t c) {
  return *input.exponent + (input.is_guarded() ? input.channel_exponent[c] : 0);
}

// Wide element i of kernels::BatchNormKernels::gradient.
class WideGradient {
 public:
  WideGradient(const OpContext& c, const Tensor& in, const kernels::BatchNormGradient& args)
      : args_(args),
        grads_(c.grad_output()),
        in_(in),
        output_(c.output()),
        is_masked_(c.mode.relu) {}
  int64_t operator()(int64_t i) const {
    const int64_t channel = i % args_.channels;
    const int64_t grad = is_masked_ && output_[i] <= 0 ? 0 : grads_[i];
    int64_t in = in_[i];
    if (in < 0) in *= int64_t{1} << args_.negative_shift;
    return grad * args_.grad_multiplier[channel] +
           in * args_.in_multiplier[channel] * (int64_t{1} << args_.in_shift) +
           args_.offset[channel];
  }

 private:
  const kernels::BatchNormGradient& args_;
  Mantissas grads_, in_, output_;
  bool is_masked_;
};

// The forward pass. If `negative_shift` is not null, the output is written before the ReLU. Its
// exponent and the counts are those after the ReLU. Positive values are as the ReLU leaves them.
// Negative values have a unit 2^n times as large. n is the least with which all of them fit, up to
// kernels::kMostNegativeShift. n is stored there, or read from there if the output is computed
// again.
void batch_norm_forward(const OpContext& context, int32_t* negative_shift);

// Gradients of scale and offset, and the sums that the gradient of the input needs.
void batch_norm_backward_weights(const OpContext& context);
void batch_norm_backward_input(const OpContext& context);
// The same from the output.
void inverted_batch_norm_backward_weights(const OpContext& context);
void inverted_batch_norm_backward_input(const OpContext& context);

}  // namespace mantissa::ops
