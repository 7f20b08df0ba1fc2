// The normative wide numbers: one element at a time, from the definitions.
#include <algorithm>

#include "kernels/wide/wide.h"
#include "numerics/normal_distribution.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

WideStatistics narrow(const NarrowWide& args, int64_t begin, int64_t end) noexcept {
  const int64_t limit = mantissa_limit(args.out.bits);
  WideStatistics found;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t rounded = rescale_rne(args.wide[i], args.shift);
    const int64_t narrow = saturate(rounded, limit);
    found.maximum = std::max(found.maximum, magnitude(args.wide[i]));
    if (args.out.data == nullptr) continue;
    found.saturated += narrow != rounded;
    with_wide_gradient_type(args.out.bits, [&](auto type) {
      args.out.as<decltype(type)>()[i] = static_cast<decltype(type)>(narrow);
    });
  }
  return found;
}

void add_shifted(const GradientSums& part, int shift, int64_t* sums, int64_t begin,
                 int64_t end) noexcept {
  with_sum_type(part.bits, [&](auto type) {
    for (int64_t i = begin; i < end; ++i) {
      sums[i] += part.as<decltype(type)>()[i] * (int64_t{1} << shift);
    }
  });
}

void plane(const Plane& args, int64_t begin, int64_t end) noexcept {
  for (int64_t i = begin; i < end; ++i) {
    const int upper = args.in[i] >> 8, lower = args.in[i] & 255;
    args.out[i] = static_cast<int8_t>(args.plane == 1 ? upper : lower - 128);
  }
}

void group_sums(const GroupSums& args, int64_t begin, int64_t end) noexcept {
  with_value_type(args.in.bits, [&](auto type) {
    const auto* in = args.in.as<decltype(type)>();
    for (int64_t i = begin * args.groups; i < end * args.groups; ++i) {
      int32_t sum = 0;
      for (int64_t c = 0; c < args.channels; ++c) sum += in[i * args.channels + c];
      args.sums[i] = sum;
    }
  });
}

void add(const int32_t* part, int32_t* sums, int64_t begin, int64_t end) noexcept {
  for (int64_t i = begin; i < end; ++i) {
    sums[i] = static_cast<int32_t>(static_cast<uint32_t>(sums[i]) + static_cast<uint32_t>(part[i]));
  }
}

void first_sums(const FirstSums& args, int64_t begin, int64_t end) noexcept {
  const int64_t outputs = args.groups * args.channels;
  for (int64_t i = begin * outputs; i < end * outputs; ++i) {
    const int64_t of_group = args.of_groups == nullptr ? 0 : args.of_groups[i / args.channels];
    args.sums[i] = args.constants[i % outputs] + args.factor * of_group;
  }
}

void channel_products(const ChannelProducts& args) noexcept {
  for (int64_t pixel = 0; pixel < args.pixels; ++pixel) {
    for (int64_t c = 0; c < args.channels; ++c) {
      int64_t sum = args.first[c];
      for (const ChannelProducts::Tap& tap : args.taps) {
        with_value_type(tap.in.bits, [&](auto type) {
          sum += tap.in.as<decltype(type)>()[pixel * args.in_step + c] * tap.weights[c];
        });
      }
      args.sums[pixel * args.sum_step + c] = sum;
    }
  }
}

void rescale(const Rescaled& args, int64_t begin, int64_t end) noexcept {
  with_wide_gradient_type(args.in.bits, [&](auto type) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t rescaled = rescale_rne(args.in.as<decltype(type)>()[i], args.shift);
      args.wide[i] = args.adds ? args.wide[i] + rescaled : rescaled;
    }
  });
}

void shift_sums(const ShiftedSums& args, int64_t begin, int64_t end) noexcept {
  for (int64_t i = begin; i < end; ++i) {
    args.wide[i] = args.sums[i] * (int64_t{1} << args.shifts[i]);
  }
}

void gelu(const Gelu& args, int64_t begin, int64_t end) noexcept {
  with_value_type(args.in.bits, [&](auto type) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t q = args.in.as<decltype(type)>()[i];
      args.wide[i] = q * normal_probability_q30(q, args.exponent);
    }
  });
}

}  // namespace

const WideKernels kWideReference = {
    "wide_reference", kNeedsNothing,    narrow,  add_shifted, plane, group_sums, add,
    first_sums,       channel_products, rescale, shift_sums,  gelu};

}  // namespace mantissa::kernels
