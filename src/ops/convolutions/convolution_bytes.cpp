#include "ops/convolutions/convolution_bytes.h"

#include "kernels/common/parallel_ranges.h"
#include "ops/attributes.h"
#include "ops/convolutions/convolution_choices.h"
#include "ops/convolutions/convolution_sums.h"

namespace mantissa::ops {
namespace {

using kernels::ConvolutionShape;
using Workspace = SumWorkspace<int32_t>;

// Exact exponents hold the sums of the whole batch. If two passes are not the rule, or a step's
// time does not matter, the sums are computed twice, a few images at a time.
int64_t images_at_once(const ConvolutionShape& shape, ExponentMode mode) {
  return mode == ExponentMode::kExact ? shape.batch : kernels::images_per_chunk(shape);
}

// For all images at once, and for chunks of them.
struct Choices {
  ConvolutionChoice all;
  PieceChoices<ConvolutionChoice> chunks;
};

kernels::WideStatistics convolve_chunk(const OpContext& c,
                                       const kernels::ConvolutionForward& chunk) {
  return choices_of<Choices>(c).chunks.of(chunk.shape.batch).forward(chunk, c.kernel);
}

// Calls visit(first, args) for each chunk of images, with args for these images.
template <typename Visit>
void for_each_chunk(const OpContext& c, const kernels::ConvolutionForward& whole, Visit&& visit) {
  const ConvolutionShape& s = whole.shape;
  const int64_t images = images_at_once(s, c.mode.exponents);
  for (int64_t first = 0; first < s.batch; first += images) {
    kernels::ConvolutionForward chunk = whole;
    chunk.shape.batch = std::min(images, s.batch - first);
    chunk.input += first * (s.input_count() / s.batch);
    visit(first, chunk);
  }
}

// Whether sums or outputs of channels differ in their exponents, so that shifts do.
bool differ(const OpContext& c, const SumExponents& exponents) {
  return c.output().is_guarded() || exponents.by_channel();
}

// Wide results of some images to 8 bits, by one shift or, if channels differ, by each one's.
void requantise(const OpContext& c, const Workspace& work, bool channels_differ, int shift,
                int64_t first, int64_t count) {
  const auto& kernel = *c.kernel.table->elementwise;
  const int64_t channels = c.output().shape.last();
  int8_t* out = c.output().as<int8_t>() + first;
  const auto range = [&](int64_t begin, int64_t end) -> kernels::WideStatistics {
    if (!channels_differ)
      return kernel.requantise({work.sums, shift, out, c.output().bits}, begin, end);
    return {0, kernel.requantise_channels({work.sums, work.shifts, channels, out, c.output().bits},
                                          begin, end)};
  };
  const int64_t unit = channels_differ ? channels : 1;
  *c.output().saturated +=
      kernels::parallel_statistics(*c.kernel.pool, count / unit,
                                   std::max<int64_t>(1, kernels::kElementsPerThread / unit), range)
          .saturated;
}

// Takes the wide results of some images into the channels' maxima. The maxima of parts are in the
// scratch, which the sums no longer need.
void add_maxima(const OpContext& c, const Workspace& work, int64_t count) {
  const int64_t channels = c.output().shape.last();
  const auto of_part = [&](int64_t part) {
    return reinterpret_cast<uint32_t*>(c.kernel.scratch.data() + part * channel_bytes(channels));
  };
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, count / channels,
      std::max<int64_t>(1, kernels::kElementsPerThread / channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        std::fill_n(of_part(part), channels, 0u);
        c.kernel.table->elementwise->channel_maxima(work.sums, channels, begin, end, of_part(part));
      });
  for (int64_t part = 0; part < parts; ++part) {
    for (int64_t o = 0; o < channels; ++o) {
      work.maxima[o] = std::max(work.maxima[o], of_part(part)[o]);
    }
  }
}

// Two passes over wide results: the first finds the exponent, the second writes. If results are
// held in chunks, the second computes them anew.
void forward_in_two_passes(const OpContext& c, const Workspace& work,
                           const kernels::ConvolutionForward& whole,
                           const SumExponents& exponents) {
  const int64_t channels = c.output().shape.last();
  const int64_t per_image = whole.shape.output_count() / whole.shape.batch;
  const bool by_channel = differ(c, exponents), fixed = c.mode.exponents == ExponentMode::kFixed;
  const bool one_chunk = images_at_once(whole.shape, c.mode.exponents) == whole.shape.batch;
  uint64_t maximum = 0;
  std::fill_n(work.maxima, by_channel ? channels : 0, 0u);
  if (!fixed) {
    for_each_chunk(c, whole, [&](int64_t, const kernels::ConvolutionForward& chunk) {
      maximum = std::max(maximum, convolve_chunk(c, chunk).maximum);
      if (by_channel) add_maxima(c, work, chunk.shape.output_count());
      if (counts_values(c)) count_sums(c, work.sums, chunk.shape.output_count(), exponents);
    });
  }
  int shift = 0;
  if (by_channel) {
    if (!fixed) choose_exponents(c, work.maxima, exponents);
    choose_channel_shifts(c, exponents, kMostChannelShift, work.shifts);
  } else {
    shift = choose_shift(c, c.output(), maximum, exponents.largest());
  }
  for_each_chunk(c, whole, [&](int64_t first, const kernels::ConvolutionForward& chunk) {
    if (fixed || !one_chunk) convolve_chunk(c, chunk);
    requantise(c, work, by_channel, shift, first * per_image, chunk.shape.output_count());
  });
}

// The same as forward_in_two_passes, for channels that differ in their sums only. The sums are
// narrowed to the exponent used last as they are computed, and again if it was wrong.
void forward_channels_in_one_pass(const OpContext& c, const Workspace& work,
                                  const kernels::ConvolutionForward& whole,
                                  const SumExponents& exponents) {
  const int64_t channels = c.output().shape.last();
  const int64_t per_image = whole.shape.output_count() / whole.shape.batch;
  const auto pass = [&] {
    choose_channel_shifts(c, exponents, kMostChannelShift, work.shifts);
    std::fill_n(work.maxima, channels, 0u);
    for_each_chunk(c, whole, [&](int64_t first, const kernels::ConvolutionForward& chunk) {
      convolve_chunk(c, chunk);
      add_maxima(c, work, chunk.shape.output_count());
      requantise(c, work, true, 0, first * per_image, chunk.shape.output_count());
    });
  };
  const int predicted = *c.output().exponent;
  const int64_t saturated = *c.output().saturated;
  pass();
  choose_exponents(c, work.maxima, exponents);
  if (*c.output().exponent == predicted) return;
  ++c.step.totals->mispredictions;
  *c.output().saturated = saturated;
  pass();
}

// Whether the kernel can narrow the sums as it computes them.
bool fits_one_pass(const OpContext& c, const SumExponents& exponents) {
  if (differ(c, exponents)) return false;
  if (c.mode.exponents == ExponentMode::kPredicted || c.mode.exponents == ExponentMode::kDecided) {
    return true;
  }
  const int shift = *c.output().exponent - exponents.largest();
  return c.mode.exponents == ExponentMode::kFixed && shift >= 0 &&
         shift <= kernels::kMaximumForwardShift;
}

// Rounding half up: sums are twice the products and the bias, plus one. Such sums are odd, so never
// halfway between two mantissas. Weights have 7 bits.
int64_t doubled_bytes(const Shape& weights, bool half_up) {
  return half_up ? round_up<int64_t>(weights.count(), 64) : 0;
}

const int8_t* doubled(const Tensor& weights, std::byte* to) {
  auto* twice = reinterpret_cast<int8_t*>(to);
  const auto* once = weights.as<int8_t>();
  for (int64_t i = 0; i < weights.count(); ++i) twice[i] = static_cast<int8_t>(2 * once[i]);
  return twice;
}

const int32_t* odd_bias(const OpContext& c, const SumExponents& products, int32_t* bias) {
  const bool has_bias = align_bias(c, products, kBiasLimit / 2 - 1, bias) != nullptr;
  for (int64_t o = 0; o < c.output().shape.last(); ++o) bias[o] = has_bias ? 2 * bias[o] + 1 : 1;
  return bias;
}

}  // namespace

RowMemory byte_forward_memory(const OpShapes& s, const PlanningContext& planning) {
  const ConvolutionShape shape = convolution_shape(s);
  const auto scratch_bytes = [&](const ConvolutionShape& part) {
    return static_cast<int64_t>(kernels::convolution_scratch_bytes(
        planning.kernels->convolution, {.shape = part}, planning.threads));
  };
  const int64_t twice = doubled_bytes(s.parameters[0], s.half_up);
  if (s.output_type != DataType::kInt8) {
    return {twice + Workspace::bytes(shape.out_channels, 0), scratch_bytes(shape)};
  }
  ConvolutionShape chunk = shape;
  chunk.batch = images_at_once(shape, s.exponent_mode);
  return {twice + Workspace::bytes(shape.out_channels, chunk.output_count()),
          std::max({scratch_bytes(shape), chunk_scratch_bytes(shape, chunk.batch, scratch_bytes),
                    planning.threads * channel_bytes(shape.out_channels)})};
}

Prepared prepare_byte_forward(const OpContext& c) {
  const ConvolutionShape shape = convolution_shape(c, c.inputs[0].shape, c.output().shape);
  const auto choose_for = [&](int64_t images) {
    ConvolutionShape chunk = shape;
    chunk.batch = images;
    return choose(c, {.shape = chunk});
  };
  return prepared(Choices{choose_for(shape.batch),
                          {shape.batch, images_at_once(shape, c.mode.exponents), choose_for}});
}

void byte_forward(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const Tensor& weights = c.parameters[0].mantissa;
  const SumExponents products(input, weights), exponents(input, weights, c.mode.half_up ? -1 : 0);
  const Workspace work(c.memory.workspace + doubled_bytes(weights.shape, c.mode.half_up),
                       c.output().shape.last());
  const ConvolutionChoice& all = choices_of<Choices>(c).all;
  kernels::ConvolutionForward args{
      .shape = all.work.shape,
      .input = input.as<int8_t>(),
      .weights = c.mode.half_up ? doubled(weights, c.memory.workspace) : weights.as<int8_t>(),
      .bias = c.mode.half_up ? odd_bias(c, products, work.bias)
                             : align_bias(c, exponents, kBiasLimit, work.bias)};
  if (c.output().type == DataType::kInt32) {
    args.sums = c.output().as<int32_t>();
    all.forward(args, c.kernel);
    set_exponent(c, c.output(), align_sums(c, exponents, args.sums));
    return;
  }
  if (!fits_one_pass(c, exponents)) {
    args.sums = work.sums;
    const bool predicts = c.mode.exponents == ExponentMode::kPredicted && !c.output().is_guarded();
    return predicts ? forward_channels_in_one_pass(c, work, args, exponents)
                    : forward_in_two_passes(c, work, args, exponents);
  }
  args.output = c.output().as<int8_t>();
  args.bits = c.output().bits;
  narrow_in_one_pass(c, exponents.largest(), [&](int shift, const kernels::PassCounts& counts) {
    args.shift = shift;
    args.counts = counts;
    return all.forward(args, c.kernel);
  });
}

void rescaled_forward(const OpContext& c) {
  const int64_t channels = c.output().shape.last();
  const Workspace work(c.memory.workspace, channels);
  const kernels::ConvolutionForward whole{.shape = choices_of<Choices>(c).all.work.shape,
                                          .input = c.inputs[0].as<int8_t>(),
                                          .weights = c.parameters[0].mantissa.as<int8_t>(),
                                          .bias = c.parameters[1].mantissa.as<int32_t>(),
                                          .sums = work.sums};
  const RescaledRange range = rescaled_range(c);
  kernels::Rescale args{.sums = work.sums,
                        .multipliers = c.parameters[2].mantissa.as<float>(),
                        .channels = channels,
                        .least = range.least,
                        .most = range.most};
  const bool is_relu6 = c.attributes<LayerAttributes>().relu6;
  for_each_chunk(c, whole, [&](int64_t first, const kernels::ConvolutionForward& chunk) {
    convolve_chunk(c, chunk);
    args.out = c.output().as<int8_t>() + first * (whole.shape.output_count() / whole.shape.batch);
    const int64_t clipped =
        kernels::parallel_statistics(
            *c.kernel.pool, chunk.shape.output_count() / channels,
            std::max<int64_t>(1, kernels::kElementsPerThread / channels),
            [&](int64_t begin, int64_t end) {
              return kernels::WideStatistics{0, c.kernel.table->rescale->rescale(args, begin, end)};
            })
            .saturated;
    if (!is_relu6) *c.output().saturated += clipped;
  });
}

RescaledRange rescaled_range(const OpContext& c) {
  const auto limit = static_cast<int>(mantissa_limit(c.output().bits));
  const auto& attributes = c.attributes<LayerAttributes>();
  if (attributes.most > 0) return {0, attributes.most};
  if (attributes.relu6) return {0, largest_of_relu6(*c.output().exponent, limit)};
  if (c.mode.relu) return {0, limit};
  return attributes.full_range ? RescaledRange{INT8_MIN, INT8_MAX} : RescaledRange{-limit, limit};
}

int largest_of_relu6(int exponent, int limit) {
  return static_cast<int>(std::min<int64_t>(rescale_rne(6, exponent), limit));
}

}  // namespace mantissa::ops
