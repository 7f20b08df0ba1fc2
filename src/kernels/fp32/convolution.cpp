#include "kernels/fp32/convolution.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <memory>
#include <new>
#include <vector>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/fp32/onednn.h"

namespace mantissa::kernels::fp32 {
namespace {

// Objects of oneDNN are destroyed by functions that are known only at run time.
template <auto kDestroy>
struct Destroy {
  template <typename T>
  void operator()(T* object) const {
    (onednn().*kDestroy)(object);
  }
};
using Attributes = std::unique_ptr<dnnl_primitive_attr, Destroy<&OneDnn::primitive_attr_destroy>>;
using Description = std::unique_ptr<dnnl_primitive_desc, Destroy<&OneDnn::primitive_desc_destroy>>;
using Primitive = std::unique_ptr<dnnl_primitive, Destroy<&OneDnn::primitive_destroy>>;
using Memory = std::unique_ptr<dnnl_memory, Destroy<&OneDnn::memory_destroy>>;
using Layout = std::unique_ptr<OneDnnLayout, Destroy<&OneDnn::memory_desc_destroy>>;

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
  if (s.in_height * s.in_width == 1 && s.kernel_height * s.kernel_width == 1 && s.padding == 0) {
    s.in_height = s.out_height = s.batch;
    s.batch = s.stride = 1;
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
    std::fill_n(strides, 2, s.stride);
    std::fill_n(dilates, 2, s.dilation - 1);
    std::fill_n(padding_before, 2, s.padding);
    // What stride leaves over at the far side is not read.
    const auto after = [&](int64_t size, int64_t kernel, int64_t results) {
      return (results - 1) * s.stride + (kernel - 1) * s.dilation + 1 - size - s.padding;
    };
    padding_after[0] = after(s.in_height, kh, s.out_height);
    padding_after[1] = after(s.in_width, kw, s.out_width);
  }
};

Attributes with_scratchpad() {
  dnnl_primitive_attr_t attributes = nullptr;
  if (onednn().primitive_attr_create(&attributes) != dnnl_success) return nullptr;
  onednn().primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
  return Attributes(attributes);
}

// Null where oneDNN has no kernel.
Description describe(const Problem& p, Pass pass, bool bias) {
  const OneDnnLayout* bias_layout = bias ? p.bias.get() : nullptr;
  const dnnl_prop_kind_t kind =
      pass == Pass::kForward ? dnnl_forward_inference : dnnl_forward_training;
  const Attributes attributes = with_scratchpad();
  if (attributes == nullptr) return nullptr;
  dnnl_primitive_desc_t found = nullptr;
  onednn().convolution_forward_primitive_desc_create(
      &found, onednn().engine, kind, dnnl_convolution_direct, p.input.get(), p.any_weights.get(),
      bias_layout, p.output.get(), p.strides, p.dilates, p.padding_before, p.padding_after,
      attributes.get());
  Description forward(found);
  if (pass == Pass::kForward || forward == nullptr) return forward;
  found = nullptr;
  if (pass == Pass::kGradInput) {
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

dnnl_query_t weights_query(Pass pass) {
  return pass == Pass::kGradWeights ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
}

int64_t aligned_bytes(const OneDnnLayout* layout) {
  return round_up<int64_t>(static_cast<int64_t>(onednn().memory_desc_get_size(layout)), 64);
}

Memory memory(const OneDnnLayout* layout, const void* data) {
  dnnl_memory_t result = nullptr;
  onednn().memory_create(&result, layout, onednn().engine, const_cast<void*>(data));
  return Memory(result);
}

struct Argument {
  int name;
  const OneDnnLayout* layout;
  const void* data;
};

bool execute(const Description& description, const std::vector<Argument>& arguments) {
  dnnl_primitive_t primitive = nullptr;
  if (onednn().primitive_create(&primitive, description.get()) != dnnl_success) return false;
  const Primitive owned(primitive);
  std::vector<Memory> memories;
  std::vector<dnnl_exec_arg_t> list;
  for (const Argument& argument : arguments) {
    memories.push_back(memory(argument.layout, argument.data));
    list.push_back({argument.name, memories.back().get()});
  }
  return onednn().primitive_execute(primitive, onednn().stream, static_cast<int>(list.size()),
                                    list.data()) == dnnl_success &&
         onednn().stream_wait(onednn().stream) == dnnl_success;
}

bool reorder(const OneDnnLayout* from_layout, const void* from, const OneDnnLayout* to_layout,
             void* to) {
  dnnl_primitive_desc_t description = nullptr;
  if (onednn().reorder_primitive_desc_create(&description, from_layout, onednn().engine, to_layout,
                                             onednn().engine, nullptr) != dnnl_success) {
    return false;
  }
  return execute(Description(description),
                 {{DNNL_ARG_FROM, from_layout, from}, {DNNL_ARG_TO, to_layout, to}});
}

// OpenMP ends the process where it cannot start a thread. So whether it can is tried first, once;
// if not, the calling thread computes alone.
void use_threads(int wanted) {
  static std::atomic<int> granted{1}, refused{INT_MAX};
  if (wanted > granted && wanted < refused) {
    (ThreadPool(wanted).threads() == wanted ? granted : refused) = wanted;
  }
  onednn().set_threads(wanted < refused ? wanted : 1);
}

// Runs a pass whose weights (or their gradient) are `weights` in our layout.
bool run(const Problem& p, Pass pass, float* weights, bool bias, std::vector<Argument> arguments,
         const KernelContext& context) {
  use_threads(context.pool->size());
  const Description description = describe(p, pass, bias);
  if (description == nullptr) return false;
  const OneDnnLayout* wanted = layout_of(description, weights_query(pass));
  const OneDnnLayout* scratchpad = layout_of(description, dnnl_query_scratchpad_md);
  const bool reorders = onednn().memory_desc_equal(wanted, p.weights.get()) == 0;
  std::byte* scratch = context.scratch.data();
  // Planned for all threads that were wanted.
  if ((reorders ? aligned_bytes(wanted) : 0) + aligned_bytes(scratchpad) >
      static_cast<int64_t>(context.scratch.size())) {
    return false;
  }
  void* arranged = reorders ? static_cast<void*>(scratch) : weights;
  const int name = pass == Pass::kGradWeights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
  arguments.push_back({name, wanted, arranged});
  arguments.push_back(
      {DNNL_ARG_SCRATCHPAD, scratchpad, scratch + (reorders ? aligned_bytes(wanted) : 0)});
  if (reorders && pass != Pass::kGradWeights &&
      !reorder(p.weights.get(), weights, wanted, arranged)) {
    return false;
  }
  if (!execute(description, arguments)) return false;
  return !reorders || pass != Pass::kGradWeights ||
         reorder(wanted, arranged, p.weights.get(), weights);
}

}  // namespace

int64_t convolution_scratch_bytes(const ConvolutionShape& shape, Pass pass, bool bias,
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

bool convolution_forward(const ConvolutionShape& shape, const float* input, const float* weights,
                         const float* bias, float* output, const KernelContext& context) noexcept
    try {
  const Problem p(shape);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, p.input.get(), input},
                                     {DNNL_ARG_DST, p.output.get(), output}};
  if (bias != nullptr) arguments.push_back({DNNL_ARG_BIAS, p.bias.get(), bias});
  return run(p, Pass::kForward, const_cast<float*>(weights), bias != nullptr, std::move(arguments),
             context);
} catch (const std::bad_alloc&) {
  return false;
}

bool convolution_grad_input(const ConvolutionShape& shape, const float* grad_output,
                            const float* weights, float* grad_input,
                            const KernelContext& context) noexcept try {
  const Problem p(shape);
  return run(p, Pass::kGradInput, const_cast<float*>(weights), false,
             {{DNNL_ARG_DIFF_DST, p.output.get(), grad_output},
              {DNNL_ARG_DIFF_SRC, p.input.get(), grad_input}},
             context);
} catch (const std::bad_alloc&) {
  return false;
}

bool convolution_grad_weights(const ConvolutionShape& shape, const float* input,
                              const float* grad_output, float* grad_weights, float* grad_bias,
                              const KernelContext& context) noexcept try {
  const Problem p(shape);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, p.input.get(), input},
                                     {DNNL_ARG_DIFF_DST, p.output.get(), grad_output}};
  if (grad_bias != nullptr) arguments.push_back({DNNL_ARG_DIFF_BIAS, p.bias.get(), grad_bias});
  return run(p, Pass::kGradWeights, grad_weights, grad_bias != nullptr, std::move(arguments),
             context);
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace mantissa::kernels::fp32
