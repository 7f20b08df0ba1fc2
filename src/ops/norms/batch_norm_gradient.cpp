// The backward pass of batch norm, from its input or inverted from its output. Source: METHODS
// sections 0.3, 0.8 and 4 (fused backward).
#include <utility>

#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/norms/batch_norm_parts.h"
#include "ops/norms/channel_gradient.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

// The source of x^: for channel i, x^ = (q - mean) * inverse_sigma. q is from `values`, or from the
// kept inputs if the channel is kept.
struct Source {
  Tensor values;
  Tensor kept;  // [rows, kept channels]; without data if there are none
  const int32_t* kept_channels = nullptr;
  int negative_shift = 0;  // negative `values` count 2^negative_shift times

  int64_t kept_count() const { return kept.empty() ? 0 : kept.shape.last(); }
};

// The normalisation of one channel.
struct Normalisation {
  Real mean, inverse_sigma;
};

// A batch norm that reads its input.
struct FromInput {
  static Source source(const OpContext& c) { return {.values = c.inputs[0], .kept = {}}; }

  static Normalisation normalisation(const OpContext& c, int64_t i) {
    const BatchNormSaved saved(c.memory.saved, c.grad_output().shape.last());
    return {Real(saved.mean[i]), Real(saved.inverse_sigma[i])};
  }

  // gamma / sigma in real units.
  static Real scale(const OpContext& c, int64_t i) {
    const BatchNormSaved saved(c.memory.saved, c.grad_output().shape.last());
    return ldexp(real(c.parameters[0].mantissa, i) * Real(saved.inverse_sigma[i]),
                 -channel_exponent(c.inputs[0], i));
  }
};

// One that reads its output y = gamma x^ + beta, y = q * 2^e.
struct FromOutput {
  static Source source(const OpContext& c) {
    const int64_t channels = c.output().shape.last(), rows = c.output().count() / channels;
    const InversionSaved saved(c.memory.saved, c.attributes<BatchNormAttributes>(), channels);
    Source source{.values = c.output(),
                  .kept = {},
                  .kept_channels = saved.channel,
                  .negative_shift = saved.header->negative_shift};
    if (saved.header->count == 0) return source;
    source.kept.data = saved.values;
    source.kept.type = saved.header->is_wide ? DataType::kInt16 : DataType::kInt8;
    source.kept.shape = Shape{rows, saved.header->count};
    return source;
  }

  static Normalisation normalisation(const OpContext& c, int64_t i) {
    const int64_t channels = c.output().shape.last();
    const BatchNormSaved saved(c.memory.saved, channels);
    const Real mean(saved.mean[i]), inverse_sigma(saved.inverse_sigma[i]);
    const int32_t place =
        InversionSaved(c.memory.saved, c.attributes<BatchNormAttributes>(), channels).place[i];
    if (place >= 0) return {mean, inverse_sigma};
    // A constant channel has no x^, whatever its output was rounded to.
    if (inverse_sigma.is_zero() || place == InversionSaved::kLeftOut) return {};
    const Real gamma = real(c.parameters[0].mantissa, i), beta = real(c.parameters[1].mantissa, i);
    const int exponent = *c.output().exponent;
    return {ldexp(beta, -exponent), ldexp(Real(1), exponent) / gamma};
  }

  static Real scale(const OpContext& c, int64_t i) {
    const InversionSaved saved(c.memory.saved, c.attributes<BatchNormAttributes>(),
                               c.output().shape.last());
    return real(c.parameters[0].mantissa, i) * Real(saved.inverse_deviation[i]);
  }
};

// The gradient of the output, if the ReLU after it lets it pass.
class Passing {
 public:
  explicit Passing(const OpContext& c)
      : grads_(c.grad_output()), output_(c.output()), is_masked_(c.mode.relu) {}
  int64_t operator[](int64_t i) const { return is_masked_ && output_[i] <= 0 ? 0 : grads_[i]; }

 private:
  Mantissas grads_, output_;
  bool is_masked_;
};

// The sums of the kept channels in place of those that have been added.
void add_kept_gradients(const OpContext& c, const Source& source, int64_t channels, int64_t begin,
                        int64_t end, int64_t* sum_grad_in) {
  const int64_t count = source.kept_count();
  for (int64_t k = 0; k < count; ++k) sum_grad_in[source.kept_channels[k]] = 0;
  const Passing grads(c);
  const Mantissas in(source.kept);
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t k = 0; k < count; ++k) {
      const int64_t channel = source.kept_channels[k];
      sum_grad_in[channel] += grads[row * channels + channel] * in[row * count + k];
    }
  }
}

kernels::BatchNormGradient gradient_arguments(const OpContext& c, const Source& source,
                                              int64_t channels) {
  return {.grad_out = gradient_of(c.grad_output()),
          .in = value_of(source.values),
          .output = c.mode.relu ? value_of(c.output()) : kernels::MantissaSpan{},
          .channels = channels,
          .negative_shift = source.negative_shift};
}

// The real numbers of a channel, over so many rows.
template <typename From>
GradientAffine gradient_affine(const OpContext& c, const BatchNormSaved& saved, int64_t i,
                               const Real& rows) {
  const Normalisation n = From::normalisation(c, i);
  const Real sum_grad(saved.sum_grad[i]);
  const Real centred = Real(saved.sum_grad_in[i]) - n.mean * sum_grad;
  return norm_gradient(From::scale(c, i), n.mean, n.inverse_sigma, sum_grad, centred, rows);
}

template <typename From>
void backward_weights(const OpContext& c) {
  const Source source = From::source(c);
  const int64_t channels = c.grad_output().shape.last(), rows = c.grad_output().count() / channels;
  const BatchNormSaved saved(c.memory.saved, channels);
  const BatchNormWorkspace work(c.memory.workspace, channels);
  const auto args = gradient_arguments(c, source, channels);
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, rows, batch_norm_grain(channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        int64_t* sums = work.partial + part * 2 * channels;
        std::fill_n(sums, 2 * channels, 0);
        c.kernel.table->batch_norm->gradient_sums(args, begin, end, sums, sums + channels);
        if (source.kept_count() > 0) {
          add_kept_gradients(c, source, channels, begin, end, sums + channels);
        }
      });
  const int exponent = *c.grad_output().exponent;
  const Tensor &scale = c.parameters[0].gradient, &offset = c.parameters[1].gradient;
  for_channels(c, channels, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      saved.sum_grad[i] = saved.sum_grad_in[i] = 0;
      for (int64_t part = 0; part < parts; ++part) {
        saved.sum_grad[i] += work.partial[part * 2 * channels + i];
        saved.sum_grad_in[i] += work.partial[(part * 2 + 1) * channels + i];
      }
      const Normalisation n = From::normalisation(c, i);
      const Real centred = Real(saved.sum_grad_in[i]) - n.mean * Real(saved.sum_grad[i]);
      accumulate_real(scale, i, centred * n.inverse_sigma, exponent);
      int64_t& total = offset.as<int64_t>()[i];
      total = accumulate(total, rescale_rne(saved.sum_grad[i], *offset.exponent - exponent));
    }
  });
}

// The integers of the kept channels, by place among them.
struct KeptCoefficients {
  int64_t *grad, *in, *offset;
};

// Takes them from the values of all channels, and leaves zeros there; all in the unit of wide
// results.
KeptCoefficients take_kept(const Source& source, const BatchNormWorkspace& work, int in_shift) {
  const int64_t count = source.kept_count();
  const KeptCoefficients by{work.partial, work.partial + count, work.partial + 2 * count};
  for (int64_t k = 0; k < count; ++k) {
    const int64_t channel = source.kept_channels[k];
    by.grad[k] = std::exchange(work.multiplier[channel], 0);
    by.in[k] = std::exchange(work.in_multiplier[channel], 0) * (int64_t{1} << in_shift);
    by.offset[k] = std::exchange(work.offset[channel], 0);
  }
  return by;
}

// The gradient of the kept channels, which the others' loops have left zero.
kernels::WideStatistics narrow_kept(const OpContext& c, const Source& source,
                                    const KeptCoefficients& by, int shift,
                                    const kernels::PassCounts& counts) {
  const Tensor& grad_input = c.grad_inputs[0];
  const int64_t channels = grad_input.shape.last(), rows = grad_input.count() / channels;
  const int64_t count = source.kept_count(), limit = mantissa_limit(grad_input.bits);
  const Passing grads(c);
  const Mantissas in(source.kept);
  return kernels::with_wide_gradient_type(grad_input.bits, [&](auto type) {
    auto* to = grad_input.as<decltype(type)>();
    return kernels::parallel_statistics(
        *c.kernel.pool, rows, batch_norm_grain(count),
        [&](int64_t begin, int64_t end, int64_t part) {
          kernels::WideCounts* counted = counts.wide_of(part);
          kernels::WideStatistics found;
          for (int64_t row = begin; row < end; ++row) {
            for (int64_t k = 0; k < count; ++k) {
              const int64_t at = row * channels + source.kept_channels[k];
              const int64_t wide =
                  grads[at] * by.grad[k] + in[row * count + k] * by.in[k] + by.offset[k];
              const int64_t rounded = rescale_rne(wide, shift), narrow = saturate(rounded, limit);
              to[at] = static_cast<decltype(type)>(narrow);
              found += {magnitude(wide), narrow != rounded};
              if (counted != nullptr) counted->add(magnitude(wide));
            }
          }
          return found;
        });
  });
}

template <typename From>
void backward_input(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const Source source = From::source(c);
  const int64_t channels = c.grad_output().shape.last(), rows = c.grad_output().count() / channels;
  const BatchNormSaved saved(c.memory.saved, channels);
  const BatchNormWorkspace work(c.memory.workspace, channels);
  const bool bytes = is_bytes(source.values) && is_bytes(source.kept);
  const GradientUnits units = write_gradient_integers(
      c, (bytes ? 7 : 15) + source.negative_shift, channels,
      [&](int64_t i) { return gradient_affine<From>(c, saved, i, Real(rows)); }, work.reals,
      {work.multiplier, work.in_multiplier, work.offset});
  const KeptCoefficients by = take_kept(source, work, units.in_shift);
  auto args = gradient_arguments(c, source, channels);
  args.grad_multiplier = work.multiplier;
  args.in_multiplier = work.in_multiplier;
  args.in_shift = units.in_shift;
  args.offset = work.offset;
  args.grad_in = gradient_of(grad_input);
  const bool keeps = source.kept_count() > 0;
  const auto narrow = [&](int narrow_shift, const kernels::PassCounts& counts) {
    args.shift = narrow_shift;
    // Kept channels are written over: pieces are not there to stay.
    kernels::WideStatistics found = write_pieces(
        c, grad_input, rows, batch_norm_grain(channels),
        {keeps ? nullptr : counts.written, counts.wide},
        [&](int64_t begin, int64_t end, uint64_t seen) {
          auto piece = args;
          piece.seen = seen;
          return c.kernel.table->batch_norm->gradient(piece, begin, end);
        },
        WideGradient(c, source.values, args));
    if (keeps) found += narrow_kept(c, source, by, narrow_shift, counts);
    return found;
  };
  narrow_gradient(c, grad_input, *c.grad_output().exponent - units.wide, narrow);
}

}  // namespace

void batch_norm_backward_weights(const OpContext& c) { backward_weights<FromInput>(c); }
void batch_norm_backward_input(const OpContext& c) { backward_input<FromInput>(c); }
void inverted_batch_norm_backward_weights(const OpContext& c) { backward_weights<FromOutput>(c); }
void inverted_batch_norm_backward_input(const OpContext& c) { backward_input<FromOutput>(c); }

}  // namespace mantissa::ops
