#include "device/training/layers.h"

#include "device/runtime/windows.h"
#include "reference/elements/elements.h"

enum {
  kMostGradientShift = 30,  // from 16 on nothing is left
  kMostChannelShift = 31,
  kBiasLimit = 1 << 30
};

static bool is_depthwise(const DevConvolution* s) {
  return s->groups > 1 && s->groups == s->in_channels && s->groups == s->out_channels;
}

static int weight_exponent(const DevLayer* l, int32_t o) {
  return l->exponents[l->blocks == 1 ? 0 : o];
}

static int largest_weight_exponent(const DevLayer* l) {
  int largest = l->exponents[0];
  for (int32_t i = 1; i < l->blocks; ++i) largest = (int)ref_larger(largest, l->exponents[i]);
  return largest;
}

static int sum_exponent(const DevLayer* l, int32_t o) {
  return *l->in->exponent + weight_exponent(l, o);
}

// The parts of the work memory, each [out_channels].
static int32_t* sums_of(const DevLayer* l) { return l->work; }
static int32_t* bias_of(const DevLayer* l) { return l->work + l->shape->out_channels; }
static int32_t* shifts_of(const DevLayer* l) { return l->work + 2 * l->shape->out_channels; }
static uint32_t* maxima_of(const DevLayer* l) {
  return (uint32_t*)(l->work + 3 * l->shape->out_channels);
}

// The bias at the sums' exponents, clipped; null without a bias.
static const int32_t* align_bias(DevStep* step, const DevLayer* l, int64_t limit) {
  if (l->bias == NULL) return NULL;
  int32_t* aligned = bias_of(l);
  for (int32_t o = 0; o < l->shape->out_channels; ++o) {
    const int64_t mantissa =
        l->bias_bits <= 8 ? ((const int8_t*)(const void*)l->bias)[o] : l->bias[o];
    const int64_t wide = ref_rescale_rne(mantissa, sum_exponent(l, o) - *l->bias_exponent);
    aligned[o] = (int32_t)ref_saturate(wide, limit);
    step->clipped += aligned[o] != wide;
  }
  return aligned;
}

// What a pass does with the sums of a pixel.
typedef struct Pass {
  const DevLayer* layer;
  const DevTensor* out;
  int shift;
  const int32_t* shifts;  // of channels; or null
  uint32_t* maxima;       // of channels; or null
  RefWideCounts* counts;
  RefStatistics found;
} Pass;

REF_LOOP void take_sums(void* work, const int32_t* sums, int32_t pixel, bool odd) {
  Pass* p = (Pass*)work;
  const int32_t channels = p->layer->shape->out_channels;
  for (int32_t o = 0; o < channels; ++o) {
    const int32_t sum = odd ? 2 * sums[o] + 1 : sums[o];
    const int shift = p->shifts == NULL ? p->shift : p->shifts[o];
    dev_put(p->out, pixel * channels + o, sum, shift, &p->found);
    ref_count_wide(p->counts, sum);
    if (p->maxima == NULL) continue;
    const uint32_t size = (uint32_t)ref_magnitude(sum);
    p->maxima[o] = size > p->maxima[o] ? size : p->maxima[o];
  }
}

REF_LOOP void take_wide_sums(void* work, const int32_t* sums, int32_t pixel, bool odd) {
  const Pass* p = (const Pass*)work;
  const int32_t channels = p->layer->shape->out_channels;
  int32_t* out = (int32_t*)p->out->data + pixel * channels;
  for (int32_t o = 0; o < channels; ++o) {
    const int32_t sum = odd ? 2 * sums[o] + 1 : sums[o];
    out[o] = p->shifts == NULL ? sum : (int32_t)ref_rescale_rne(sum, p->shifts[o]);
  }
}

static void take(void* work, const int32_t* sums, int32_t pixel) {
  take_sums(work, sums, pixel, false);
}
static void take_odd(void* work, const int32_t* sums, int32_t pixel) {
  take_sums(work, sums, pixel, true);
}
static void take_wide(void* work, const int32_t* sums, int32_t pixel) {
  take_wide_sums(work, sums, pixel, false);
}
static void take_wide_odd(void* work, const int32_t* sums, int32_t pixel) {
  take_wide_sums(work, sums, pixel, true);
}

static void run(const Pass* pass, DevTake function, const int32_t* bias) {
  const DevLayer* l = pass->layer;
  const DevWeights weights = {l->weights, bias, 0};
  if (is_depthwise(l->shape)) {
    dev_depthwise_8(l->shape, (const int8_t*)l->in->data, &weights, sums_of(l), function,
                    (void*)pass);
  } else {
    dev_convolution_8(l->shape, (const int8_t*)l->in->data, &weights, sums_of(l), function,
                      (void*)pass);
  }
}

// A layer whose channels have one exponent, with its bias at that.
typedef struct Plain {
  const DevLayer* layer;
  const DevTensor* out;
  const int32_t* bias;
} Plain;

REF_LOOP RefStatistics pass_sums(const void* work, int shift, RefWideCounts* counts,
                                 DevTake function) {
  const Plain* plain = (const Plain*)work;
  Pass pass = {plain->layer, plain->out, shift, NULL, NULL, counts, {0, 0}};
  run(&pass, function, plain->bias);
  return pass.found;
}

static RefStatistics pass_plain(const void* work, int shift, RefWideCounts* counts) {
  return pass_sums(work, shift, counts, take);
}
static RefStatistics pass_odd(const void* work, int shift, RefWideCounts* counts) {
  return pass_sums(work, shift, counts, take_odd);
}

// Shifts from the sums of each channel to its exponent.
REF_LOOP void set_shifts(const DevLayer* l, const DevTensor* out) {
  for (int32_t o = 0; o < l->shape->out_channels; ++o) {
    const int shift = dev_channel_exponent(out, o) - sum_exponent(l, o);
    shifts_of(l)[o] = (int32_t)ref_clamp(shift, 0, kMostChannelShift);
  }
}

// Sets the exponent that holds all channels, and of guarded values each channel's offset from it.
// Without a guard channels of zeros have no influence.
REF_LOOP void set_exponents(DevStep* step, const DevLayer* l, const DevTensor* out) {
  const bool guarded = dev_is_guarded(out);
  const uint32_t* maxima = maxima_of(l);
  int largest = INT16_MIN;
  for (int32_t o = 0; o < l->shape->out_channels; ++o) {
    const int wanted = sum_exponent(l, o) + ref_exact_shift(maxima[o], out->bits);
    if (guarded || maxima[o] != 0) largest = (int)ref_larger(largest, wanted);
  }
  *out->exponent = dev_checked(step, largest == INT16_MIN ? ref_zero_exponent(out->bits) : largest);
  for (int32_t o = 0; o < l->shape->out_channels && guarded; ++o) {
    const int wanted = sum_exponent(l, o) + ref_exact_shift(maxima[o], out->bits);
    out->channel_exponents[o] = (int8_t)ref_larger(wanted - largest, -kMostChannelShift);
  }
}

// Channels that differ in the exponents of their sums or of their results: a pass for the maxima,
// and one that writes.
REF_LOOP void forward_by_channels(DevStep* step, const DevLayer* l, const DevTensor* out,
                                  const int32_t* bias, DevTake function) {
  uint32_t* maxima = maxima_of(l);
  for (int32_t o = 0; o < l->shape->out_channels; ++o) maxima[o] = 0;
  Pass pass = {l, out, 0, NULL, maxima, NULL, {0, 0}};
  if (!step->again) {
    run(&pass, function, bias);
    set_exponents(step, l, out);
  }
  set_shifts(l, out);
  const Pass written = {l, out, 0, shifts_of(l), NULL, NULL, {0, 0}};
  Pass last = written;
  run(&last, function, bias);
  step->clipped += last.found.saturated;
}

REF_LOOP void forward(DevStep* step, const DevLayer* l, const DevTensor* out, const int32_t* bias,
                      DevTake function, DevPass pass) {
  if (l->blocks > 1 || dev_is_guarded(out)) {
    forward_by_channels(step, l, out, bias, function);
    return;
  }
  const Plain plain = {l, out, bias};
  const DevNarrowing narrowing = {pass, &plain, out, sum_exponent(l, 0), 32 - out->bits};
  dev_narrow_value(step, &narrowing);
}

REF_LOOP void wide_sums(DevStep* step, const DevLayer* l, const DevTensor* out, const int32_t* bias,
                        DevTake function) {
  const int largest = *l->in->exponent + largest_weight_exponent(l);
  for (int32_t o = 0; o < l->shape->out_channels; ++o)
    shifts_of(l)[o] = largest - sum_exponent(l, o);
  const Pass pass = {l, out, 0, l->blocks > 1 ? shifts_of(l) : NULL, NULL, NULL, {0, 0}};
  run(&pass, function, bias);
  *out->exponent = dev_checked(step, largest);
}

void dev_layer_forward(DevStep* step, const DevLayer* l, const DevTensor* out) {
  forward(step, l, out, align_bias(step, l, kBiasLimit), take, pass_plain);
}

void dev_layer_sums(DevStep* step, const DevLayer* l, const DevTensor* out) {
  wide_sums(step, l, out, align_bias(step, l, kBiasLimit), take_wide);
}

// Sums that are twice as large, plus one, are odd: never halfway between mantissas. `in` is the
// layer's input, with half its unit.
REF_LOOP DevLayer with_odd_sums(const DevLayer* l, int16_t* exponent, DevTensor* in) {
  DevLayer odd = *l;
  *in = *l->in;
  *exponent = (int16_t)(*in->exponent - 1);
  in->exponent = exponent;
  odd.in = in;
  return odd;
}

void dev_layer_forward_half_up(DevStep* step, const DevLayer* l, const DevTensor* out) {
  const int32_t* bias = align_bias(step, l, kBiasLimit / 2 - 1);
  int16_t exponent;
  DevTensor in;
  const DevLayer odd = with_odd_sums(l, &exponent, &in);
  forward(step, &odd, out, bias, take_odd, pass_odd);
}

void dev_layer_sums_half_up(DevStep* step, const DevLayer* l, const DevTensor* out) {
  const int32_t* bias = align_bias(step, l, kBiasLimit / 2 - 1);
  int16_t exponent;
  DevTensor in;
  const DevLayer odd = with_odd_sums(l, &exponent, &in);
  wide_sums(step, &odd, out, bias, take_wide_odd);
}

// The gradient of an input element.
typedef struct GradInput {
  const DevLayer* layer;
  const DevTensor* grad_out;
  int largest;  // exponent of the weights
} GradInput;

// Products of 16 by 8 bits of which 32 bits hold the sum.
enum { kMostProducts = 512 };

// The sum of `count` gradients times weights, `step` apart.
REF_LOOP int64_t gradients_by_weights(int bytes, const void* gradients, int32_t first,
                                      const int8_t* weights, int32_t step, int32_t count) {
  int64_t sum = 0;
  for (int32_t at = 0; at < count; at += kMostProducts) {
    const int32_t end = at + kMostProducts < count ? at + kMostProducts : count;
    int32_t part = 0;
    for (int32_t o = at; o < end; ++o) {
      part += ref_load32(gradients, bytes, first + o) * weights[o * step];
    }
    sum += part;
  }
  return sum;
}

// The same if channels of the weights have exponents of their own: gradients are brought to units
// in which all have the largest one.
static int64_t aligned_gradients(const GradInput* g, int32_t first, const int8_t* weights,
                                 int32_t step, int32_t channel, int32_t count) {
  int64_t sum = 0;
  for (int32_t o = 0; o < count; ++o) {
    const int shift = g->largest - weight_exponent(g->layer, channel + o);
    const int64_t gradient = ref_rescale_rne(dev_at(g->grad_out, first + o),
                                             (int)ref_smaller(shift, kMostGradientShift));
    sum += gradient * weights[o * step];
  }
  return sum;
}

static int64_t grad_input_of(const void* work, int32_t i, int32_t c) {
  const GradInput* g = (const GradInput*)work;
  const DevConvolution* s = g->layer->shape;
  const int32_t at = i / s->in_channels, x = at % s->in_width, row = at / s->in_width;
  const int32_t y = row % s->in_height, n = row / s->in_height;
  const int32_t group_in = s->in_channels / s->groups, group_out = s->out_channels / s->groups;
  const int32_t channel = c / group_in * group_out, taps = s->kernel_height * s->kernel_width;
  int64_t sum = 0;
  for (int32_t ky = 0; ky < s->kernel_height; ++ky) {
    const int32_t down = y + s->padding_height - ky * s->dilation;
    if (down < 0 || down % s->stride_height != 0 || down / s->stride_height >= s->out_height)
      continue;
    for (int32_t kx = 0; kx < s->kernel_width; ++kx) {
      const int32_t across = x + s->padding_width - kx * s->dilation;
      if (across < 0 || across % s->stride_width != 0 || across / s->stride_width >= s->out_width)
        continue;
      const int32_t pixel =
          (n * s->out_height + down / s->stride_height) * s->out_width + across / s->stride_width;
      const int32_t first = pixel * s->out_channels + channel, step = taps * group_in;
      const int8_t* weights = g->layer->weights +
                              (channel * taps + ky * s->kernel_width + kx) * group_in +
                              c % group_in;
      if (g->layer->blocks > 1) {
        sum += aligned_gradients(g, first, weights, step, channel, group_out);
      } else {
        REF_WITH_SHORT_BYTES(
            g->grad_out->bits, bytes,
            sum += gradients_by_weights(bytes, g->grad_out->data, first, weights, step, group_out));
      }
    }
  }
  return sum;
}

void dev_layer_grad_input(DevStep* step, const DevLayer* l, const DevTensor* grad_out,
                          const DevTensor* grad_in) {
  const int largest = largest_weight_exponent(l);
  const GradInput work = {l, grad_out, largest};
  const DevElements elements = {grad_input_of, &work, grad_in};
  dev_write_gradient(step, &elements, *grad_out->exponent + largest);
}

// The sum of `count` gradients, `step` apart, times inputs, `in_step` apart.
REF_LOOP int32_t gradients_by_inputs(int bytes, const void* gradients, int32_t first, int32_t step,
                                     const int8_t* in, int32_t in_step, int32_t count) {
  int32_t sum = 0;
  for (int32_t x = 0; x < count; ++x) {
    sum += ref_load32(gradients, bytes, first + x * step) * in[x * in_step];
  }
  return sum;
}

// The sum of a weight's gradient over all pixels: exact.
REF_LOOP int64_t weight_sum(int bytes, const DevLayer* l, const void* gradients, int32_t o,
                            int32_t ky, int32_t kx, int32_t c) {
  const DevConvolution* s = l->shape;
  const int32_t group = o / (s->out_channels / s->groups) * (s->in_channels / s->groups);
  const int8_t* in = (const int8_t*)l->in->data + group + c;
  const int32_t right = kx * s->dilation - s->padding_width;
  // Pixels [begin, end) of a row meet the image with this tap.
  int32_t begin = 0, end = s->out_width;
  while (begin < end && begin * s->stride_width + right < 0) ++begin;
  while (end > begin && (end - 1) * s->stride_width + right >= s->in_width) --end;
  int64_t sum = 0;
  for (int32_t row = 0; row < s->batch * s->out_height; ++row) {
    const int32_t n = row / s->out_height;
    const int32_t y = row % s->out_height * s->stride_height - s->padding_height + ky * s->dilation;
    if (y < 0 || y >= s->in_height) continue;
    const int32_t from = (n * s->in_height + y) * s->in_width + right;
    for (int32_t x = begin; x < end; x += kMostProducts) {
      const int32_t count = end - x < kMostProducts ? end - x : kMostProducts;
      sum +=
          gradients_by_inputs(bytes, gradients, (row * s->out_width + x) * s->out_channels + o,
                              s->out_channels, in + (from + x * s->stride_width) * s->in_channels,
                              s->stride_width * s->in_channels, count);
    }
  }
  return sum;
}

void dev_layer_grad_weights(const DevStep* step, const DevLayer* l, const DevTensor* grad_out,
                            const DevSums* sums, bool adds) {
  const DevConvolution* s = l->shape;
  (void)step;
  const int exponent = *l->in->exponent + *grad_out->exponent;
  if (sums->bits == 32) *sums->exponent = (int16_t)exponent;
  const int shift = *sums->exponent - exponent;
  int32_t i = 0;
  for (int32_t o = 0; o < s->out_channels; ++o) {
    for (int32_t ky = 0; ky < s->kernel_height; ++ky) {
      for (int32_t kx = 0; kx < s->kernel_width; ++kx) {
        for (int32_t c = 0; c < s->in_channels / s->groups; ++c, ++i) {
          int64_t sum = 0;
          REF_WITH_SHORT_BYTES(grad_out->bits, bytes,
                               sum = weight_sum(bytes, l, grad_out->data, o, ky, kx, c));
          if (sums->bits == 32) {
            int32_t* total = (int32_t*)sums->data + i;
            *total = (int32_t)sum + (adds ? *total : 0);
          } else {
            int64_t* total = (int64_t*)sums->data + i;
            *total = ref_accumulate(adds ? *total : 0, ref_rescale_rne(sum, shift));
          }
        }
      }
    }
  }
}

void dev_layer_grad_bias(const DevTensor* grad_out, const DevSums* sums) {
  const int shift = *sums->exponent - *grad_out->exponent;
  int64_t* totals = (int64_t*)sums->data;
  for (int32_t o = 0; o < grad_out->channels; ++o) {
    int64_t sum = 0;
    for (int32_t i = o; i < grad_out->count; i += grad_out->channels) sum += dev_at(grad_out, i);
    totals[o] = ref_accumulate(totals[o], ref_rescale_rne(sum, shift));
  }
}
