// Functions of version 3 of oneDNN's C interface by those of version 2. There a layout is a plain
// struct, and a convolution is described in two steps.
#include "kernels/fp32/onednn.h"

#if DNNL_VERSION_MAJOR == 2

#include <memory>

namespace mantissa::kernels::fp32 {
namespace {

// Calls init(layout) on a new layout, which the caller owns if that succeeds.
template <typename Init>
dnnl_status_t create_layout(OneDnnLayout** layout, Init&& init) {
  auto created = std::make_unique<OneDnnLayout>();
  const dnnl_status_t status = init(created.get());
  if (status == dnnl_success) *layout = created.release();
  return status;
}

}  // namespace

dnnl_status_t OneDnn::memory_desc_create_with_strides(OneDnnLayout** layout, int count,
                                                      const dnnl_dims_t dims, dnnl_data_type_t type,
                                                      const dnnl_dims_t strides) const {
  return create_layout(layout, [&](OneDnnLayout* created) {
    return memory_desc_init_by_strides(created, count, dims, type, strides);
  });
}

dnnl_status_t OneDnn::memory_desc_create_with_tag(OneDnnLayout** layout, int count,
                                                  const dnnl_dims_t dims, dnnl_data_type_t type,
                                                  dnnl_format_tag_t tag) const {
  return create_layout(layout, [&](OneDnnLayout* created) {
    return memory_desc_init_by_tag(created, count, dims, type, tag);
  });
}

dnnl_status_t OneDnn::memory_desc_destroy(OneDnnLayout* layout) const {
  delete layout;
  return dnnl_success;
}

dnnl_status_t OneDnn::convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t* description, dnnl_engine_t on, dnnl_prop_kind_t kind,
    dnnl_alg_kind_t algorithm, const OneDnnLayout* input, const OneDnnLayout* weights,
    const OneDnnLayout* bias, const OneDnnLayout* output, const dnnl_dims_t strides,
    const dnnl_dims_t dilates, const dnnl_dims_t padding_before, const dnnl_dims_t padding_after,
    const_dnnl_primitive_attr_t attributes) const {
  dnnl_convolution_desc_t convolution{};
  const dnnl_status_t status = dilated_convolution_forward_desc_init(
      &convolution, kind, algorithm, input, weights, bias, output, strides, dilates, padding_before,
      padding_after);
  if (status != dnnl_success) return status;
  return primitive_desc_create(description, &convolution, attributes, on, nullptr);
}

dnnl_status_t OneDnn::convolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t* description, dnnl_engine_t on, dnnl_alg_kind_t algorithm,
    const OneDnnLayout* grad_input, const OneDnnLayout* weights, const OneDnnLayout* grad_output,
    const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t padding_before,
    const dnnl_dims_t padding_after, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attributes) const {
  dnnl_convolution_desc_t convolution{};
  const dnnl_status_t status = dilated_convolution_backward_data_desc_init(
      &convolution, algorithm, grad_input, weights, grad_output, strides, dilates, padding_before,
      padding_after);
  if (status != dnnl_success) return status;
  return primitive_desc_create(description, &convolution, attributes, on, forward);
}

dnnl_status_t OneDnn::convolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t* description, dnnl_engine_t on, dnnl_alg_kind_t algorithm,
    const OneDnnLayout* input, const OneDnnLayout* grad_weights, const OneDnnLayout* grad_bias,
    const OneDnnLayout* grad_output, const dnnl_dims_t strides, const dnnl_dims_t dilates,
    const dnnl_dims_t padding_before, const dnnl_dims_t padding_after,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attributes) const {
  dnnl_convolution_desc_t convolution{};
  const dnnl_status_t status = dilated_convolution_backward_weights_desc_init(
      &convolution, algorithm, input, grad_weights, grad_bias, grad_output, strides, dilates,
      padding_before, padding_after);
  if (status != dnnl_success) return status;
  return primitive_desc_create(description, &convolution, attributes, on, forward);
}

}  // namespace mantissa::kernels::fp32

#endif
