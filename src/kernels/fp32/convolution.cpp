#include "kernels/fp32/convolution.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <memory>
#include <new>
#include <vector>

#include "base/checked.h"
#include "base/system/thread_pool.h"
#include "kernels/fp32/primitive.h"

namespace mantissa::kernels::fp32 {
namespace {

Layout strided(const std::vector<dnnl_dim_t>& dims, const std::vector<dnnl_dim_t>& strides) {
  OneDnnLayout* layout = nullptr;
  onednn().memory_desc_create_with_strides(&layout, static_cast<int>(dims.size()), dims.data(),
                                           dnnl_f32, strides.data());
  return Layout(layout);
}

// Whichever oneDNN likes best.
Layout any(const std::vector<dnnl_dim_t>& dims) {
  OneDnnLayout* layout = nullptr;
  onednn().memory_desc_create_with_tag(&layout, static_cast<int>(dims.size()), dims.data(),
                                       dnnl_f32, dnnl_format_tag_any);
  return Layout(layout);
}

// [N, H, W, C] as oneDNN's dimensions NCHW.
Layout images(int64_t n, int64_t h, int64_t w, int64_t c) {
  return strided({n, c, h, w}, {h * w * c, 1, w * c, c});
}

// Rows of a linear layer are the pixels of one image: kernels share the weights over pixels.
ConvolutionShape as_one_image(ConvolutionShape s) {
  if (s.in_height * s.in_width == 1 && s.kernel_height * s.kernel_width == 1 &&
      s.padding_height == 0 && s.padding_width == 0) {
    s.in_height = s.out_height = s.batch;
    s.batch = s.stride_height = s.stride_width = 1;
  }
  return s;
}

// The layouts of our tensors, and a convolution described to oneDNN.
struct Problem {
  ConvolutionShape s;
  Layout input, output, weights, any_weights, bias;
  dnnl_dims_t strides, dilates, padding_before, padding_after;

  explicit Problem(const ConvolutionShape& shape) : s(as_one_image(shape)) {
    input = images(s.batch, s.in_height, s.in_width, s.in_channels);
    output = images(s.batch, s.out_height, s.out_width, s.out_channels);
    const int64_t kh = s.kernel_height, kw = s.kernel_width;
    const int64_t in = s.group_in_channels(), out = s.group_out_channels();
    std::vector<dnnl_dim_t> dims = {out, in, kh, kw};
    std::vector<dnnl_dim_t> steps = {kh * kw * in, 1, kw * in, in};
    if (s.groups > 1) {
      dims.insert(dims.begin(), s.groups);
      steps.insert(steps.begin(), out * kh * kw * in);
    }
    weights = strided(dims, steps);
    any_weights = any(dims);
    bias = strided({s.out_channels}, {1});
    strides[0] = s.stride_height, strides[1] = s.stride_width;
    std::fill_n(dilates, 2, s.dilation - 1);
    padding_before[0] = s.padding_height, padding_before[1] = s.padding_width;
    // Pixels that the stride leaves over at the far side are not read.
    const auto after = [&](int axis, int64_t size, int64_t kernel, int64_t results) {
      return (results - 1) * strides[axis] + (kernel - 1) * s.dilation + 1 - size -
             padding_before[axis];
    };
    padding_after[0] = after(0, s.in_height, kh, s.out_height);
    padding_after[1] = after(1, s.in_width, kw, s.out_width);
  }
};

Attributes with_scratchpad() {
  dnnl_primitive_attr_t attributes = nullptr;
  if (onednn().primitive_attr_create(&attributes) != dnnl_success) return nullptr;
  onednn().primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
  return Attributes(attributes);
}

// Null if oneDNN has no kernel.
Description describe(const Problem& p, ConvolutionPass pass, bool bias) {
  const OneDnnLayout* bias_layout = bias ? p.bias.get() : nullptr;
  const dnnl_prop_kind_t kind =
      pass == ConvolutionPass::kForward ? dnnl_forward_inference : dnnl_forward_training;
  const Attributes attributes = with_scratchpad();
  if (attributes == nullptr) return nullptr;
  dnnl_primitive_desc_t found = nullptr;
  onednn().convolution_forward_primitive_desc_create(
      &found, onednn().engine, kind, dnnl_convolution_direct, p.input.get(), p.any_weights.get(),
      bias_layout, p.output.get(), p.strides, p.dilates, p.padding_before, p.padding_after,
      attributes.get());
  Description forward(found);
  if (pass == ConvolutionPass::kForward || forward == nullptr) return forward;
  found = nullptr;
  if (pass == ConvolutionPass::kGradInput) {
    onednn().convolution_backward_data_primitive_desc_create(
        &found, onednn().engine, dnnl_convolution_direct, p.input.get(), p.any_weights.get(),
        p.output.get(), p.strides, p.dilates, p.padding_before, p.padding_after, forward.get(),
        attributes.get());
  } else {
    onednn().convolution_backward_weights_primitive_desc_create(
        &found, onednn().engine, dnnl_convolution_direct, p.input.get(), p.any_weights.get(),
        bias_layout, p.output.get(), p.strides, p.dilates, p.padding_before, p.padding_after,
        forward.get(), attributes.get());
  }
  return Description(found);
}

const OneDnnLayout* layout_of(const Description& description, dnnl_query_t what) {
  return onednn().primitive_desc_query_md(description.get(), what, 0);
}

dnnl_query_t weights_query(ConvolutionPass pass) {
  return pass == ConvolutionPass::kGradWeights ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
}

int64_t aligned_bytes(const OneDnnLayout* layout) {
  return round_up<int64_t>(static_cast<int64_t>(onednn().memory_desc_get_size(layout)), 64);
}

// OpenMP ends the process if it cannot start a thread. So it is tested first, once, whether it can.
// If not, the calling thread computes alone.
void use_threads(int wanted) {
  static std::atomic<int> granted{1}, refused{INT_MAX};
  if (wanted > granted && wanted < refused) {
    (ThreadPool(wanted).threads() == wanted ? granted : refused) = wanted;
  }
  onednn().set_threads(wanted < refused ? wanted : 1);
}

// oneDNN's names of the tensors of a pass, or of their gradients.
struct Names {
  int input, output, weights, bias;
};

Names names_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward:
      return {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS};
    case ConvolutionPass::kGradInput:
      return {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS};
    case ConvolutionPass::kGradWeights:
      return {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS};
  }
  return {};
}

}  // namespace

// oneDNN may want the weights in another order: they are then arranged in scratch before the
// convolution, and their gradients after it.
class Convolution {
 public:
  Convolution(const ConvolutionShape& shape, ConvolutionPass pass, bool bias, int threads)
      : pass_(pass), threads_(threads) {
    use_threads(threads);
    const Problem p(shape);
    const Description description = describe(p, pass, bias);
    if (description == nullptr) return;
    const OneDnnLayout* wanted = layout_of(description, weights_query(pass));
    const OneDnnLayout* scratchpad = layout_of(description, dnnl_query_scratchpad_md);
    reorders_ = onednn().memory_desc_equal(wanted, p.weights.get()) == 0;
    weights_bytes_ = reorders_ ? aligned_bytes(wanted) : 0;
    scratch_bytes_ = weights_bytes_ + aligned_bytes(scratchpad);
    const Names names = names_of(pass);
    std::vector<Argument> arguments;
    arguments.push_back(argument(names.input, p.input.get()));
    arguments.push_back(argument(names.output, p.output.get()));
    arguments.push_back(argument(names.weights, wanted));
    arguments.push_back(argument(DNNL_ARG_SCRATCHPAD, scratchpad));
    if (bias) arguments.push_back(argument(names.bias, p.bias.get()));
    convolve_ = Primitive(description, std::move(arguments));
    if (!reorders_) return;
    arrange_ = pass == ConvolutionPass::kGradWeights ? reorder(wanted, p.weights.get())
                                                     : reorder(p.weights.get(), wanted);
  }

  bool is_made() const { return convolve_.is_created() && (!reorders_ || arrange_.is_created()); }

  // `input` and `output`, or the gradients that have their shapes.
  bool run(const void* input, const void* output, const void* weights, const void* bias,
           const KernelContext& context) const {
    use_threads(threads_);
    if (scratch_bytes_ > static_cast<int64_t>(context.scratch.size())) return false;
    std::byte* const scratch = context.scratch.data();
    const void* arranged = reorders_ ? scratch : weights;
    const bool writes_weights = pass_ == ConvolutionPass::kGradWeights;
    if (reorders_ && !writes_weights && !arrange_.run({weights, arranged})) return false;
    std::byte* const scratchpad = scratch + weights_bytes_;
    const bool done = bias == nullptr ? convolve_.run({input, output, arranged, scratchpad})
                                      : convolve_.run({input, output, arranged, scratchpad, bias});
    return done && (!reorders_ || !writes_weights || arrange_.run({arranged, weights}));
  }

 private:
  ConvolutionPass pass_;
  int threads_;
  bool reorders_ = false;
  int64_t weights_bytes_ = 0, scratch_bytes_ = 0;
  Primitive convolve_, arrange_;
};

int64_t convolution_scratch_bytes(const ConvolutionShape& shape, ConvolutionPass pass, bool bias,
                                  int threads) noexcept try {
  onednn().set_threads(threads);
  const Problem p(shape);
  const Description description = describe(p, pass, bias);
  if (description == nullptr) return -1;
  const OneDnnLayout* wanted = layout_of(description, weights_query(pass));
  const bool reorders = onednn().memory_desc_equal(wanted, p.weights.get()) == 0;
  return (reorders ? aligned_bytes(wanted) : 0) +
         aligned_bytes(layout_of(description, dnnl_query_scratchpad_md));
} catch (const std::bad_alloc&) {
  return -1;
}

std::shared_ptr<const Convolution> make_convolution(const ConvolutionShape& shape,
                                                    ConvolutionPass pass, bool bias,
                                                    int threads) noexcept try {
  auto convolution = std::make_shared<const Convolution>(shape, pass, bias, threads);
  return convolution->is_made() ? convolution : nullptr;
} catch (const std::bad_alloc&) {
  return nullptr;
}

bool convolution_forward(const Convolution* convolution, const float* input, const float* weights,
                         const float* bias, float* output, const KernelContext& context) noexcept {
  return convolution != nullptr && convolution->run(input, output, weights, bias, context);
}

bool convolution_grad_input(const Convolution* convolution, const float* grad_output,
                            const float* weights, float* grad_input,
                            const KernelContext& context) noexcept {
  return convolution != nullptr &&
         convolution->run(grad_input, grad_output, weights, nullptr, context);
}

bool convolution_grad_weights(const Convolution* convolution, const float* input,
                              const float* grad_output, float* grad_weights, float* grad_bias,
                              const KernelContext& context) noexcept {
  return convolution != nullptr &&
         convolution->run(input, grad_output, grad_weights, grad_bias, context);
}

}  // namespace mantissa::kernels::fp32
