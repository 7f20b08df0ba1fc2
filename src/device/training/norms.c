#include "device/training/norms.h"

#include "reference/elements/elements.h"

// 2^-17 + ..., numerics/real.h: 1e-5 as a double.
static RefReal epsilon(void) { return ref_real_of_bits(UINT64_C(0x3ee4f8b588e368f1)); }

DevNorm dev_norm(const DevMemory* m, const DevNormPlace* p, const DevTensor* in,
                 const DevTensor* out, int32_t work) {
  const DevNorm norm = {in,
                        out,
                        p->relu,
                        (const int16_t*)dev_kept(m, &p->scale),
                        (const int16_t*)dev_kept(m, &p->scale_exponent),
                        (const int16_t*)dev_kept(m, &p->offset),
                        (const int16_t*)dev_kept(m, &p->offset_exponent),
                        (uint64_t*)dev_kept(m, &p->running_mean),
                        (uint64_t*)dev_kept(m, &p->running_variance),
                        (uint64_t*)(void*)(m->arena + p->saved),
                        m->arena + work};
  return norm;
}

static RefReal real_of(const int16_t* mantissas, const int16_t* exponent, int32_t c) {
  return ref_real_scaled(ref_real(mantissas[c]), *exponent);
}

static int32_t channels_of(const DevNorm* n) { return n->in->channels; }
static int32_t rows_of(const DevNorm* n) { return n->in->count / channels_of(n); }

// The parts of what is saved.
static uint64_t* mean_of(const DevNorm* n) { return n->saved; }
static uint64_t* inverse_sigma_of(const DevNorm* n) { return n->saved + channels_of(n); }
static int64_t* sum_grad_of(const DevNorm* n) {
  return (int64_t*)(void*)n->saved + 2 * channels_of(n);
}
static int64_t* sum_grad_in_of(const DevNorm* n) { return sum_grad_of(n) + channels_of(n); }

// The parts of the work memory.
static int64_t* wide_offset_of(const DevNorm* n) { return (int64_t*)n->work; }
static int32_t* multiplier_of(const DevNorm* n) {
  return (int32_t*)(void*)(wide_offset_of(n) + channels_of(n));
}
static int32_t* in_multiplier_of(const DevNorm* n) { return multiplier_of(n) + channels_of(n); }

static void approach(uint64_t* running, RefReal batch, RefReal momentum) {
  const RefReal before = ref_real_of_bits(*running);
  const RefReal difference = ref_real_difference(batch, before);
  *running = ref_bits_of_real(ref_real_sum(before, ref_real_product(momentum, difference)));
}

// Statistics of a channel, rounded from exact integers. Rows are at most 2^24, mantissas of 8 bits:
// rows * sum of squares <= 2^62.
static bool channel_statistics(const DevStep* step, const DevNorm* n, int32_t c) {
  const int32_t rows = rows_of(n), channels = n->in->channels;
  int64_t sum = 0, squares = 0;
  for (int32_t row = 0; row < rows; ++row) {
    const int64_t q = dev_at(n->in, row * channels + c);
    sum += q;
    squares += q * q;
  }
  const int64_t spread = rows * squares - sum * sum;
  const int exponent = dev_channel_exponent(n->in, c);
  const RefReal count = ref_real(rows);
  const RefReal mean = ref_real_quotient(ref_real(sum), count);
  const RefReal variance = ref_real_quotient(ref_real_quotient(ref_real(spread), count), count);
  const RefReal sigma =
      ref_real_root(ref_real_sum(variance, ref_real_scaled(epsilon(), -2 * exponent)));
  mean_of(n)[c] = ref_bits_of_real(mean);
  // A constant channel gives beta: x - mean is zero everywhere, whatever 1 / sigma is.
  inverse_sigma_of(n)[c] =
      spread == 0 ? 0 : ref_bits_of_real(ref_real_quotient(ref_real(1), sigma));
  const RefReal momentum = step->scalars.statistics_momentum;
  const RefReal unbiased =
      rows > 1 ? ref_real_quotient(ref_real_product(variance, count), ref_real(rows - 1))
               : variance;
  approach(n->running_mean + c, ref_real_scaled(mean, exponent), momentum);
  approach(n->running_variance + c, ref_real_scaled(unbiased, 2 * exponent), momentum);
  return spread >= (int64_t)rows * rows;
}

typedef struct Affine {
  RefReal scale, offset;
} Affine;

// A channel's scale and offset in mantissa units of the input.
static Affine affine_of(const DevNorm* n, int32_t c) {
  const RefReal gamma = real_of(n->scale, n->scale_exponent, c);
  const RefReal beta = real_of(n->offset, n->offset_exponent, c);
  const RefReal scale = ref_real_product(gamma, ref_real_of_bits(inverse_sigma_of(n)[c]));
  const RefReal shift = ref_real_product(scale, ref_real_of_bits(mean_of(n)[c]));
  const Affine affine = {scale, ref_real_difference(beta, shift)};
  return affine;
}

// Multipliers and offsets of all channels as integers with one exponent, which is returned.
static int fixed_point_affine(DevStep* step, const DevNorm* n) {
  const int64_t offset_limit = INT64_C(1) << 44;
  const int bits = (int)ref_larger(8, n->in->bits);
  RefReal peak = ref_real(0);
  bool is_finite = true;
  for (int32_t c = 0; c < n->in->channels; ++c) {
    const Affine a = affine_of(n, c);
    const RefReal offset = ref_real_scaled(a.offset, 1 - bits);
    is_finite = is_finite && ref_real_is_finite(a.scale) && ref_real_is_finite(offset);
    peak = ref_real_larger(ref_real_larger(peak, ref_real_magnitude(a.scale)),
                           ref_real_magnitude(offset));
  }
  if (!is_finite) step->exponent_overflow = true;
  const int shift = ref_fixed_point_shift(peak, (int)ref_smaller(31, 45 - bits));
  for (int32_t c = 0; c < n->in->channels; ++c) {
    const Affine a = affine_of(n, c);
    multiplier_of(n)[c] = (int32_t)ref_fixed_point(a.scale, shift, ref_mantissa_limit(32));
    wide_offset_of(n)[c] = ref_fixed_point(a.offset, shift, offset_limit);
  }
  return -shift;
}

static int64_t normalised(const void* work, int32_t i, int32_t c) {
  const DevNorm* n = (const DevNorm*)work;
  const int64_t wide = dev_at(n->in, i) * multiplier_of(n)[c] + wide_offset_of(n)[c];
  return n->relu ? ref_larger(0, wide) : wide;
}

// An even multiplier and an odd offset: the sum is never halfway between mantissas.
static int64_t normalised_odd(const void* work, int32_t i, int32_t c) {
  const DevNorm* n = (const DevNorm*)work;
  const int64_t multiplier = multiplier_of(n)[c] & ~1, offset = wide_offset_of(n)[c] | 1;
  const int64_t wide = dev_at(n->in, i) * multiplier + offset;
  return n->relu ? ref_larger(0, wide) : wide;
}

// The extremes of the channels decide, with 0: the maximum may be of a value that no element has.
static RefStatistics pass_normalised(const void* work, int shift, RefWideCounts* counts) {
  const DevNorm* n = (const DevNorm*)work;
  const DevElements elements = {normalised, n, n->out};
  return dev_pass_elements(&elements, shift, counts);
}

static RefStatistics pass_odd(const void* work, int shift, RefWideCounts* counts) {
  const DevNorm* n = (const DevNorm*)work;
  const DevElements elements = {normalised_odd, n, n->out};
  return dev_pass_elements(&elements, shift, counts);
}

static void measure(const DevStep* step, const DevNorm* n) {
  for (int32_t c = 0; c < n->in->channels; ++c) {
    const bool is_wide = channel_statistics(step, n, c);
    if (!is_wide && n->in->violated != NULL) *n->in->violated = 1;
  }
}

REF_LOOP void forward(DevStep* step, const DevNorm* n, DevPass pass) {
  measure(step, n);
  const int exponent = fixed_point_affine(step, n);
  const DevNarrowing narrowing = {pass, n, n->out, exponent, 62};
  dev_narrow_value(step, &narrowing);
}

REF_LOOP void again(DevStep* step, const DevNorm* n, DevPass pass) {
  const int exponent = fixed_point_affine(step, n);
  (void)pass(n, (int)ref_clamp(*n->out->exponent - exponent, 0, 62), NULL);
}

int dev_norm_affine(DevStep* step, const DevNorm* n, bool measures) {
  if (measures) measure(step, n);
  return fixed_point_affine(step, n);
}

void dev_norm_forward(DevStep* step, const DevNorm* n) { forward(step, n, pass_normalised); }
void dev_norm_again(DevStep* step, const DevNorm* n) { again(step, n, pass_normalised); }
void dev_norm_forward_half_up(DevStep* step, const DevNorm* n) { forward(step, n, pass_odd); }
void dev_norm_again_half_up(DevStep* step, const DevNorm* n) { again(step, n, pass_odd); }

static int64_t passing(const DevNorm* n, const DevTensor* grad_out, int32_t i) {
  return n->relu && dev_at(n->out, i) <= 0 ? 0 : dev_at(grad_out, i);
}

// sum of g * q - mean * sum of g.
static RefReal centred(const DevNormSums* s) {
  return ref_real_difference(ref_real(s->grad_in), ref_real_product(s->mean, ref_real(s->grad)));
}

void dev_add_norm_gradients(const DevNormSums* s, int32_t c, int exponent, const DevSums* scale,
                            const DevSums* offset) {
  const RefReal of_scale = ref_real_product(centred(s), s->inverse_sigma);
  int64_t* scales = (int64_t*)scale->data;
  int64_t* offsets = (int64_t*)offset->data;
  const int64_t part = ref_fixed_point(of_scale, exponent - *scale->exponent, REF_WIDE_LIMIT);
  scales[c] = ref_accumulate(scales[c], part);
  offsets[c] = ref_accumulate(offsets[c], ref_rescale_rne(s->grad, *offset->exponent - exponent));
}

DevGradientAffine dev_gradient_affine(const DevNormSums* s, RefReal grad, int32_t rows) {
  const RefReal negative = ref_real_negative(grad), count = ref_real(rows);
  const RefReal in =
      ref_real_quotient(ref_real_product(ref_real_product(negative, s->inverse_sigma),
                                         ref_real_product(centred(s), s->inverse_sigma)),
                        count);
  const RefReal offset =
      ref_real_difference(ref_real_quotient(ref_real_product(negative, ref_real(s->grad)), count),
                          ref_real_product(in, s->mean));
  const DevGradientAffine affine = {grad, in, offset};
  return affine;
}

int dev_fix_gradient(DevStep* step, DevAffineOf of, const void* work, int32_t channels,
                     const DevFixedGradient* to) {
  const int64_t offset_limit = INT64_C(1) << 60;
  RefReal peak = ref_real(0);
  bool is_finite = true;
  for (int32_t c = 0; c < channels; ++c) {
    const DevGradientAffine a = of(work, c);
    is_finite = is_finite && ref_real_is_finite(a.grad) && ref_real_is_finite(a.in) &&
                ref_real_is_finite(a.offset);
    peak = ref_real_larger(ref_real_larger(peak, ref_real_magnitude(a.grad)),
                           ref_real_magnitude(a.in));
  }
  if (!is_finite) step->exponent_overflow = true;
  const int shift = ref_fixed_point_shift(peak, 31);
  for (int32_t c = 0; c < channels; ++c) {
    const DevGradientAffine a = of(work, c);
    to->multiplier[c] = (int32_t)ref_fixed_point(a.grad, shift, ref_mantissa_limit(32));
    to->in_multiplier[c] = (int32_t)ref_fixed_point(a.in, shift, ref_mantissa_limit(32));
    to->wide_offset[c] = ref_fixed_point(a.offset, shift, offset_limit);
  }
  return -shift;
}

static DevNormSums sums_of(const DevNorm* n, int32_t c) {
  const DevNormSums sums = {ref_real_of_bits(mean_of(n)[c]),
                            ref_real_of_bits(inverse_sigma_of(n)[c]), sum_grad_of(n)[c],
                            sum_grad_in_of(n)[c]};
  return sums;
}

void dev_norm_grad_weights(const DevNorm* n, const DevTensor* grad_out, const DevSums* scale,
                           const DevSums* offset) {
  const int32_t channels = n->in->channels;
  for (int32_t c = 0; c < channels; ++c) {
    sum_grad_of(n)[c] = sum_grad_in_of(n)[c] = 0;
    for (int32_t i = c; i < grad_out->count; i += channels) {
      const int64_t gradient = passing(n, grad_out, i);
      sum_grad_of(n)[c] += gradient;
      sum_grad_in_of(n)[c] += gradient * dev_at(n->in, i);
    }
    const DevNormSums sums = sums_of(n, c);
    dev_add_norm_gradients(&sums, c, *grad_out->exponent, scale, offset);
  }
}

static DevGradientAffine affine_gradient(const void* work, int32_t c) {
  const DevNorm* n = (const DevNorm*)work;
  const DevNormSums sums = sums_of(n, c);
  const RefReal grad =
      ref_real_scaled(ref_real_product(real_of(n->scale, n->scale_exponent, c), sums.inverse_sigma),
                      -dev_channel_exponent(n->in, c));
  return dev_gradient_affine(&sums, grad, rows_of(n));
}

typedef struct NormGradient {
  const DevNorm* norm;
  const DevTensor* grad_out;
} NormGradient;

static int64_t gradient_of(const void* work, int32_t i, int32_t c) {
  const NormGradient* g = (const NormGradient*)work;
  const DevNorm* n = g->norm;
  return passing(n, g->grad_out, i) * multiplier_of(n)[c] +
         dev_at(n->in, i) * in_multiplier_of(n)[c] + wide_offset_of(n)[c];
}

void dev_norm_grad_input(DevStep* step, const DevNorm* n, const DevTensor* grad_out,
                         const DevTensor* grad_in) {
  const DevFixedGradient fixed = {multiplier_of(n), in_multiplier_of(n), wide_offset_of(n)};
  const int exponent = dev_fix_gradient(step, affine_gradient, n, n->in->channels, &fixed);
  const NormGradient gradient = {n, grad_out};
  const DevElements elements = {gradient_of, &gradient, grad_in};
  dev_write_gradient(step, &elements, *grad_out->exponent + exponent);
}
