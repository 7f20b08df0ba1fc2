#include "device/operators/inverted_norms.h"

#include "reference/elements/elements.h"

enum { kInverted = -1, kLeftOut = -2, kMostNegativeShift = 8, kMostShift = 62 };

static int32_t channels_of(const DevInversion* v) { return v->norm->out->channels; }
static int32_t rows_of(const DevInversion* v) { return v->norm->out->count / channels_of(v); }

// What is saved, behind mean, 1 / sigma and the two sums of the norm.
static uint64_t* mean_of(const DevInversion* v) { return v->norm->saved; }
static uint64_t* inverse_sigma_of(const DevInversion* v) { return mean_of(v) + channels_of(v); }
static int64_t* sum_grad_of(const DevInversion* v) {
  return (int64_t*)(void*)(mean_of(v) + 2 * channels_of(v));
}
static int64_t* sum_grad_in_of(const DevInversion* v) { return sum_grad_of(v) + channels_of(v); }
// 1 / sigma in real units.
static uint64_t* inverse_deviation_of(const DevInversion* v) {
  return mean_of(v) + 4 * channels_of(v);
}
// The place of each channel among the kept, or one of the constants.
static int32_t* places_of(const DevInversion* v) {
  return (int32_t*)(void*)(mean_of(v) + 5 * channels_of(v));
}
static int32_t* kept_count_of(const DevInversion* v) { return places_of(v) + channels_of(v); }
static int32_t* negative_shift_of(const DevInversion* v) { return kept_count_of(v) + 1; }
static int8_t* kept_of(const DevInversion* v) { return (int8_t*)(kept_count_of(v) + 2); }

// The work memory, as the norm fills it.
static int64_t* wide_offset_of(const DevInversion* v) { return (int64_t*)v->norm->work; }
static int32_t* multiplier_of(const DevInversion* v) {
  return (int32_t*)(void*)(wide_offset_of(v) + channels_of(v));
}
static int32_t* in_multiplier_of(const DevInversion* v) {
  return multiplier_of(v) + channels_of(v);
}

static RefReal real_of(const int16_t* mantissas, const int16_t* exponent, int32_t c) {
  return ref_real_scaled(ref_real(mantissas[c]), *exponent);
}
static RefReal gamma_of(const DevInversion* v, int32_t c) {
  return real_of(v->norm->scale, v->norm->scale_exponent, c);
}
static RefReal beta_of(const DevInversion* v, int32_t c) {
  return real_of(v->norm->offset, v->norm->offset_exponent, c);
}
static bool is_less(RefReal a, RefReal b) { return ref_real_difference(a, b).mantissa < 0; }

static int64_t normalised(const DevInversion* v, int32_t i, int32_t c) {
  const int64_t offset = v->odd ? wide_offset_of(v)[c] | 1 : wide_offset_of(v)[c];
  const int32_t multiplier = v->odd ? multiplier_of(v)[c] & ~1 : multiplier_of(v)[c];
  return dev_at(v->norm->in, i) * multiplier + offset;
}

typedef struct Extremes {
  int64_t low, high;
} Extremes;

static Extremes extremes_of(const DevInversion* v) {
  Extremes found = {0, 0};
  for (int32_t i = 0; i < v->norm->in->count; ++i) {
    const int64_t wide = normalised(v, i, i % channels_of(v));
    found.low = ref_smaller(found.low, wide);
    found.high = ref_larger(found.high, wide);
  }
  return found;
}

// Negative values are rounded once more, half up; those that are clipped are not counted.
static int64_t write_before_relu(const DevInversion* v, int shift) {
  const DevTensor* out = v->norm->out;
  const int fewer = *negative_shift_of(v);
  const int64_t half = (INT64_C(1) << fewer) / 2;
  RefStatistics above = {0, 0}, below = {0, 0};
  for (int32_t i = 0; i < out->count; ++i) {
    const int64_t rounded = ref_rescale_rne(normalised(v, i, i % channels_of(v)), shift);
    const int64_t coarse = (rounded + half) >> fewer;
    dev_put(out, i, rounded < 0 ? coarse : rounded, 0, rounded < 0 ? &below : &above);
  }
  return above.saturated;
}

static int64_t positive_of(const void* work, int32_t i, int32_t c) {
  return ref_larger(0, normalised((const DevInversion*)work, i, c));
}

// The shift for positive values, which alone decide the exponent. Dynamic fixed point counts them
// as they are written.
static int shift_of_positive(DevStep* step, const DevInversion* v, uint64_t above, int exponent) {
  const DevTensor* out = v->norm->out;
  if (step->dynamic != NULL) {
    const DevElements elements = {positive_of, v, out};
    dev_write_value(step, &elements, exponent, kMostShift);
    return *out->exponent - exponent;
  }
  const int shift = ref_exact_shift(above, out->bits);
  *out->exponent = dev_checked(step, above == 0 ? ref_zero_exponent(out->bits) : exponent + shift);
  return shift;
}

static void forward_before_relu(DevStep* step, const DevInversion* v) {
  const int exponent = dev_norm_affine(step, v->norm, true);
  const Extremes found = extremes_of(v);
  const int shift = shift_of_positive(step, v, ref_magnitude(found.high), exponent);
  const int more = ref_exact_shift(ref_magnitude(found.low), v->norm->out->bits) - shift;
  *negative_shift_of(v) = (int32_t)ref_clamp(more, 0, kMostNegativeShift);
  const int64_t clipped = write_before_relu(v, shift);
  if (step->dynamic == NULL) step->clipped += clipped;
}

// Whether rounding to units of the output hides too much of x^: more than a quarter of a standard
// deviation, or if the offset is much larger than the scale.
static bool is_ill_conditioned(const DevInversion* v, int32_t c) {
  const RefReal gamma = ref_real_magnitude(gamma_of(v, c)),
                beta = ref_real_magnitude(beta_of(v, c));
  const int exponent = *v->norm->out->exponent + *negative_shift_of(v);  // the coarser unit
  return is_less(gamma, ref_real_scaled(ref_real(1), exponent + 1)) ||
         is_less(ref_real_scaled(gamma, 3), beta);
}

// Decides for each channel: inverted, kept or left out. If there is no room for all, they take
// turns.
static void choose_kept(const DevStep* step, const DevInversion* v) {
  int32_t* places = places_of(v);
  int32_t ill = 0;
  for (int32_t c = 0; c < channels_of(v); ++c) {
    const bool is_ill = is_ill_conditioned(v, c);
    places[c] = is_ill ? kLeftOut : kInverted;
    ill += is_ill;
  }
  *kept_count_of(v) = ill < v->room ? ill : v->room;
  if (ill == 0) return;
  const int32_t first = (int32_t)(step->scalars.step % ill * v->room % ill);
  int32_t turn = ill - first;
  for (int32_t c = 0; c < channels_of(v); ++c) {
    if (places[c] == kInverted) continue;
    const int32_t place = turn++ % ill;
    if (place < *kept_count_of(v)) places[c] = place;
  }
}

static void keep_inputs(const DevInversion* v) {
  const int32_t channels = channels_of(v), count = *kept_count_of(v);
  for (int32_t i = 0; i < v->norm->in->count; ++i) {
    const int32_t place = places_of(v)[i % channels];
    if (place >= 0) kept_of(v)[i / channels * count + place] = (int8_t)dev_at(v->norm->in, i);
  }
}

void dev_inverted_forward(DevStep* step, const DevInversion* v) {
  const DevNorm* n = v->norm;
  *negative_shift_of(v) = 0;
  if (n->relu) {
    forward_before_relu(step, v);
  } else if (v->odd) {
    dev_norm_forward_half_up(step, n);
  } else {
    dev_norm_forward(step, n);
  }
  for (int32_t c = 0; c < channels_of(v); ++c) {
    const RefReal inverse = ref_real_of_bits(inverse_sigma_of(v)[c]);
    inverse_deviation_of(v)[c] =
        ref_bits_of_real(ref_real_scaled(inverse, -dev_channel_exponent(n->in, c)));
  }
  choose_kept(step, v);
  keep_inputs(v);
}

void dev_inverted_again(DevStep* step, const DevInversion* v) {
  const DevNorm* n = v->norm;
  if (n->relu) {
    const int exponent = dev_norm_affine(step, n, false);
    (void)write_before_relu(v, (int)ref_clamp(*n->out->exponent - exponent, 0, kMostShift));
  } else if (v->odd) {
    dev_norm_again_half_up(step, n);
  } else {
    dev_norm_again(step, n);
  }
}

// The number q of an element: x^ = (q - mean) / sigma, of its input or of its output.
static int64_t number_of(const DevInversion* v, int32_t i, int32_t c) {
  const int32_t place = places_of(v)[c];
  if (place >= 0) return kept_of(v)[i / channels_of(v) * *kept_count_of(v) + place];
  const int64_t q = dev_at(v->norm->out, i);
  return q < 0 ? q * (INT64_C(1) << *negative_shift_of(v)) : q;
}

static int64_t passing(const DevInversion* v, const DevTensor* grad_out, int32_t i) {
  return v->norm->relu && dev_at(v->norm->out, i) <= 0 ? 0 : dev_at(grad_out, i);
}

static DevNormSums sums_of(const DevInversion* v, int32_t c) {
  DevNormSums n = {ref_real_of_bits(mean_of(v)[c]), ref_real_of_bits(inverse_sigma_of(v)[c]),
                   sum_grad_of(v)[c], sum_grad_in_of(v)[c]};
  const int32_t place = places_of(v)[c];
  if (place >= 0) return n;
  const int exponent = *v->norm->out->exponent;
  // A constant channel has no x^, whatever its output was rounded to.
  const bool has_none = n.inverse_sigma.mantissa == 0 || place == kLeftOut;
  n.mean = has_none ? ref_real(0) : ref_real_scaled(beta_of(v, c), -exponent);
  n.inverse_sigma = has_none
                        ? ref_real(0)
                        : ref_real_quotient(ref_real_scaled(ref_real(1), exponent), gamma_of(v, c));
  return n;
}

void dev_inverted_grad_weights(const DevInversion* v, const DevTensor* grad_out,
                               const DevSums* scale, const DevSums* offset) {
  const int exponent = *grad_out->exponent;
  for (int32_t c = 0; c < channels_of(v); ++c) {
    int64_t sum = 0, sum_in = 0;
    for (int32_t i = c; i < grad_out->count; i += channels_of(v)) {
      const int64_t gradient = passing(v, grad_out, i);
      sum += gradient;
      sum_in += gradient * number_of(v, i, c);
    }
    sum_grad_of(v)[c] = sum;
    sum_grad_in_of(v)[c] = sum_in;
    const DevNormSums sums = sums_of(v, c);
    dev_add_norm_gradients(&sums, c, exponent, scale, offset);
  }
}

static DevGradientAffine affine_gradient(const void* work, int32_t c) {
  const DevInversion* v = (const DevInversion*)work;
  const DevNormSums sums = sums_of(v, c);
  const RefReal grad =
      ref_real_product(gamma_of(v, c), ref_real_of_bits(inverse_deviation_of(v)[c]));
  return dev_gradient_affine(&sums, grad, rows_of(v));
}

typedef struct Gradient {
  const DevInversion* inversion;
  const DevTensor* grad_out;
} Gradient;

static int64_t gradient_of(const void* work, int32_t i, int32_t c) {
  const Gradient* g = (const Gradient*)work;
  const DevInversion* v = g->inversion;
  return passing(v, g->grad_out, i) * multiplier_of(v)[c] +
         number_of(v, i, c) * in_multiplier_of(v)[c] + wide_offset_of(v)[c];
}

void dev_inverted_grad_input(DevStep* step, const DevInversion* v, const DevTensor* grad_out,
                             const DevTensor* grad_in) {
  const DevFixedGradient fixed = {multiplier_of(v), in_multiplier_of(v), wide_offset_of(v)};
  const int exponent = dev_fix_gradient(step, affine_gradient, v, channels_of(v), &fixed);
  const Gradient gradient = {v, grad_out};
  const DevElements elements = {gradient_of, &gradient, grad_in};
  dev_write_gradient(step, &elements, *grad_out->exponent + exponent);
}
