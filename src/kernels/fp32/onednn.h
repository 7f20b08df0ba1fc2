// oneDNN, loaded when it is first used, so that integer runs carry none of it.
//
// Callers use the C interface of version 3 (Debian 13). With version 2 (Debian 12)
// the functions that have changed since are made of the older ones.
#pragma once

#include <dnnl.h>

#include "base/result.h"

#if DNNL_VERSION_MAJOR != 2 && DNNL_VERSION_MAJOR != 3
#error "written for the C interface of oneDNN 2 and 3 (Debian 12 and 13: libdnnl-dev)"
#endif

namespace mantissa::kernels::fp32 {

// How a tensor lies in memory.
#if DNNL_VERSION_MAJOR == 2
using OneDnnLayout = dnnl_memory_desc_t;
#else
using OneDnnLayout = dnnl_memory_desc;
#endif

// The functions that are used, by their names without dnnl_.
struct OneDnn {
#define MANTISSA_ONEDNN(name) decltype(&::dnnl_##name) name = nullptr;
#include "kernels/fp32/onednn.inc"
#undef MANTISSA_ONEDNN
  void (*set_threads)(int) = nullptr;  // of its OpenMP
  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;

#if DNNL_VERSION_MAJOR == 2
  // Functions of version 3 (onednn_2.cpp).
  dnnl_status_t memory_desc_create_with_strides(OneDnnLayout** layout, int count,
                                                const dnnl_dims_t dims, dnnl_data_type_t type,
                                                const dnnl_dims_t strides) const;
  dnnl_status_t memory_desc_create_with_tag(OneDnnLayout** layout, int count,
                                            const dnnl_dims_t dims, dnnl_data_type_t type,
                                            dnnl_format_tag_t tag) const;
  dnnl_status_t memory_desc_destroy(OneDnnLayout* layout) const;
  dnnl_status_t convolution_forward_primitive_desc_create(
      dnnl_primitive_desc_t* description, dnnl_engine_t on, dnnl_prop_kind_t kind,
      dnnl_alg_kind_t algorithm, const OneDnnLayout* input, const OneDnnLayout* weights,
      const OneDnnLayout* bias, const OneDnnLayout* output, const dnnl_dims_t strides,
      const dnnl_dims_t dilates, const dnnl_dims_t padding_before, const dnnl_dims_t padding_after,
      const_dnnl_primitive_attr_t attributes) const;
  dnnl_status_t convolution_backward_data_primitive_desc_create(
      dnnl_primitive_desc_t* description, dnnl_engine_t on, dnnl_alg_kind_t algorithm,
      const OneDnnLayout* grad_input, const OneDnnLayout* weights, const OneDnnLayout* grad_output,
      const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t padding_before,
      const dnnl_dims_t padding_after, const_dnnl_primitive_desc_t forward,
      const_dnnl_primitive_attr_t attributes) const;
  dnnl_status_t convolution_backward_weights_primitive_desc_create(
      dnnl_primitive_desc_t* description, dnnl_engine_t on, dnnl_alg_kind_t algorithm,
      const OneDnnLayout* input, const OneDnnLayout* grad_weights, const OneDnnLayout* grad_bias,
      const OneDnnLayout* grad_output, const dnnl_dims_t strides, const dnnl_dims_t dilates,
      const dnnl_dims_t padding_before, const dnnl_dims_t padding_after,
      const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attributes) const;
#endif
};

// Loads it, once per process. The error says what to install.
Status load_onednn();

// After load_onednn() succeeded.
const OneDnn& onednn();

}  // namespace mantissa::kernels::fp32
