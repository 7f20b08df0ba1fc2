#include "ops/losses/slices/sliced_loss.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checked.h"
#include "kernels/convolution/pieces.h"
#include "ops/attributes.h"
#include "ops/convolutions/grad_input.h"
#include "ops/losses/loss_rows.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

const Attributes& sliced_layer_attributes(const OpContext& c) { return c.node.attributes[1]; }

bool wants_slice_gradients(const OpContext& c) { return !c.grad_inputs.empty(); }

// The layer's decisions for a slice.
struct SlicePrepared {
  Prepared forward, grad_input;
};
using LossSlices = kernels::PieceChoices<SlicePrepared>;

// The parts of the workspace, from its start on.
struct SliceMemory {
  int64_t exponents, gradient, own;

  SliceMemory(int64_t rows, int64_t classes, int64_t gradient_bytes)
      : exponents(aligned(rows * classes * int64_t{sizeof(int32_t)})),
        gradient(exponents + aligned(rows * int64_t{sizeof(int16_t)})),
        own(gradient + aligned(rows * classes * gradient_bytes)) {}

  static int64_t aligned(int64_t bytes) { return round_up<int64_t>(bytes, 64); }
};

// Rows [first, first + rows) of a tensor, whose rows have `width` numbers.
Tensor slice_of(const Tensor& whole, int64_t first, int64_t rows, int64_t width) {
  Tensor part = whole;
  part.shape = Shape{rows, width};
  if (!whole.empty()) {
    part.data = whole.as<std::byte>() + first * width * element_bytes(whole.type);
  }
  if (whole.row_exponents != nullptr) part.row_exponents += first;
  return part;
}

// The contexts of the layer and of the loss for some rows.
class LossSlice {
 public:
  // `gradient_exponent`: of the logits' gradient. `counts`: whether clipped logits are counted.
  LossSlice(const OpContext& c, int64_t first, int64_t rows, int gradient_exponent, bool counts)
      : layer(c),
        loss(c),
        layer_gradient(c),
        gradient_exponent_(static_cast<int16_t>(gradient_exponent)) {
    const Tensor& input = c.inputs[0];
    const int64_t classes = c.output().shape.last();
    set_logits(c, rows, classes, counts);
    input_ = slice_of(input, first, rows, input.shape.last());
    loss_inputs_[0] = logits_;
    for (size_t i = 1; i < c.inputs.size(); ++i) {
      loss_inputs_[i] = slice_of(c.inputs[i], first, rows, 1);
      loss_inputs_[i].shape = Shape{rows};
    }
    layer.node = {&kLinear, c.node.index, &sliced_layer_attributes(c)};
    layer.inputs = std::span(&input_, 1);
    layer.outputs = std::span(&logits_, 1);
    layer.grad_inputs = {};
    loss.node.op = &kSoftmaxCrossEntropy;
    loss.inputs = std::span(loss_inputs_).first(c.inputs.size());
    loss.outputs = {};
    loss.parameters = {};
    loss.kernel.prepared = &c.attributes<LossAttributes>().smoothing_q16;
    if (wants_slice_gradients(c)) set_gradients(c, first, rows, classes);
  }
  LossSlice(const LossSlice&) = delete;
  LossSlice& operator=(const LossSlice&) = delete;

  // Takes what the layer decided for as many rows.
  void use(const SlicePrepared& prepared) {
    layer.kernel.prepared = prepared.forward.get();
    layer_gradient.kernel.prepared = prepared.grad_input.get();
  }

  OpContext layer, loss, layer_gradient;
  Tensor gradient;  // of the logits

 private:
  void set_logits(const OpContext& c, int64_t rows, int64_t classes, bool counts) {
    const int64_t most = std::min(c.parameters[0].rows_at_once, loss_rows(c));
    const int64_t gradient_bytes =
        wants_slice_gradients(c) ? element_bytes(c.grad_inputs[0].type) : int64_t{0};
    const SliceMemory memory(most, classes, gradient_bytes);
    std::byte* const base = c.memory.workspace;
    logits_ = c.output();
    logits_.data = base;
    logits_.shape = Shape{rows, classes};
    if (c.inputs[0].row_exponents != nullptr) {
      logits_.row_exponents = reinterpret_cast<int16_t*>(base + memory.exponents);
    }
    if (!counts) logits_.saturated = &uncounted_;
    gradient.data = base + memory.gradient;
    layer.memory.workspace = layer_gradient.memory.workspace = base + memory.own;
  }

  void set_gradients(const OpContext& c, int64_t first, int64_t rows, int64_t classes) {
    void* const data = gradient.data;
    gradient = c.grad_inputs[0];
    gradient.data = data;
    gradient.shape = Shape{rows, classes};
    gradient.exponent = &gradient_exponent_;
    grad_input_ = slice_of(c.grad_inputs[1], first, rows, c.inputs[0].shape.last());
    layer_gradient.node = layer.node;
    layer_gradient.inputs = {};
    layer_gradient.outputs = {};
    layer_gradient.grad_outputs = std::span(&gradient, 1);
    layer_gradient.grad_inputs = std::span(&grad_input_, 1);
  }

  Tensor input_, logits_, grad_input_;
  std::array<Tensor, 3> loss_inputs_;
  int16_t gradient_exponent_;
  int64_t uncounted_ = 0;
};

// Calls use(slice) for all rows, one slice after the other.
template <typename Use>
void for_each_slice(const OpContext& c, int gradient_exponent, bool counts, const Use& use) {
  const auto& choices = *static_cast<const LossSlices*>(c.kernel.prepared);
  const int64_t all = loss_rows(c);
  for (int64_t first = 0; first < all; first += choices.piece) {
    const int64_t rows = std::min(choices.piece, all - first);
    LossSlice slice(c, first, rows, gradient_exponent, counts);
    slice.use(choices.of(rows));
    use(slice);
  }
}

// Passes over all slices, of which the last one stands.
class GradientPasses {
 public:
  explicit GradientPasses(const OpContext& c) : c_(c) {}

  // Writes the gradient of the logits with a shift and, from it, the gradient of the input:
  // input_shift_of(wide exponent) is its shift. Returns the statistics of the first gradient. The
  // first pass counts the loss.
  template <typename InputShift>
  kernels::WideStatistics write(int shift, int exponent, const InputShift& input_shift_of,
                                const kernels::PassCounts& counts) {
    kernels::WideStatistics found;
    input_found_ = {};
    shift_ = shift;
    exponent_ = exponent;
    for_each_slice(c_, exponent, is_first_, [&](const LossSlice& slice) {
      kLinear.integer.forward.run(slice.layer);
      if (is_first_) loss_forward<BySoftmax>(slice.loss);
      found += write_loss_gradient<BySoftmax>(slice.loss, slice.gradient, shift, counts);
      input_shift_ = input_shift_of(wide_grad_input_exponent(slice.layer_gradient));
      input_found_ += write_grad_input(slice.layer_gradient, input_shift_, {});
    });
    is_first_ = false;
    return found;
  }

  // Writes the gradient of the input with a shift, from a gradient of the logits that has its
  // exponent: unless the last pass did.
  kernels::WideStatistics write_input(int shift) {
    const int exponent = *c_.grad_inputs[0].exponent;
    if (shift != input_shift_ || exponent != exponent_) {
      write(shift_, exponent, [&](int) { return shift; }, {});
    }
    return input_found_;
  }

 private:
  const OpContext& c_;
  bool is_first_ = true;
  int shift_ = 0, exponent_ = 0, input_shift_ = 0;
  kernels::WideStatistics input_found_;
};

// Narrows the gradient of the logits as a whole, with the rule for it, then the gradient of the
// input. A pass for the first assumes that the second one's rule will keep its first shift.
void write_sliced_gradients(const OpContext& c) {
  const Tensor &gradient = c.grad_inputs[0], &grad_input = c.grad_inputs[1];
  const int factor = factor_exponent_of(loss_weight_q10(*c.node.attributes));
  const int wide_exponent = wide_gradient_exponent<BySoftmax, kernels::kSoftmaxGradientExponent>(
      LossSlice(c, 0, 1, 0, false).loss, factor);
  GradientPasses passes(c);
  narrow_gradient(c, gradient, wide_exponent, [&](int shift, const kernels::PassCounts& counts) {
    return passes.write(
        shift, std::clamp(wide_exponent + shift, kExponentMin, kExponentMax),
        [&](int wide) { return first_gradient_shift(grad_input, wide); }, counts);
  });
  const int input_wide = *gradient.exponent + c.parameters[0].mantissa.largest_exponent();
  narrow_gradient(c, grad_input, input_wide,
                  [&](int shift, const kernels::PassCounts&) { return passes.write_input(shift); });
}

void run_slices(const OpContext& c) {
  if (wants_slice_gradients(c)) return write_sliced_gradients(c);
  for_each_slice(c, 0, true, [&](const LossSlice& slice) {
    kLinear.integer.forward.run(slice.layer);
    loss_forward<BySoftmax>(slice.loss);
  });
}

Prepared prepare_slices(const OpContext& c) {
  const int64_t all = loss_rows(c);
  const int64_t piece = std::min(c.parameters[0].rows_at_once, all);
  return std::make_shared<const LossSlices>(all, piece, [&](int64_t rows) {
    const LossSlice slice(c, 0, rows, 0, false);
    SlicePrepared prepared;
    prepared.forward = kLinear.integer.forward.prepare(slice.layer);
    if (wants_slice_gradients(c)) {
      prepared.grad_input = kLinear.integer.grad_input.prepare(slice.layer_gradient);
    }
    return prepared;
  });
}

}  // namespace

bool takes_slices(const Node& layer, const Node& loss) {
  return layer.op == &kLinear && loss.op == &kSoftmaxCrossEntropy &&
         is_power_of_two(loss_weight_q10(loss.attributes));
}

int64_t sliced_workspace_bytes(int64_t rows, int64_t classes, int gradient_bits,
                               int64_t own_bytes) {
  const int64_t gradient_bytes =
      gradient_bits == 0 ? 0 : static_cast<int64_t>(kernels::gradient_bytes(gradient_bits));
  return SliceMemory(rows, classes, gradient_bytes).own + own_bytes;
}

const Op kSlicedCrossEntropy = {
    .name = "sliced_softmax_cross_entropy",
    .integer = {.forward = {.run = run_slices, .prepare = prepare_slices},
                .kernel = BySoftmax::kKernel}};

}  // namespace mantissa::ops
