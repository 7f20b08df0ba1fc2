// oneDNN, loaded when it is first used, so that integer runs carry none of it.
#pragma once

#include <dnnl.h>

#include "base/result.h"

#if DNNL_VERSION_MAJOR != 2
#error "written for the C interface of oneDNN 2 (Debian 12: libdnnl-dev)"
#endif

namespace mantissa::kernels::fp32 {

// The functions that are used, by their names without dnnl_.
struct OneDnn {
#define MANTISSA_ONEDNN(name) decltype(&::dnnl_##name) name = nullptr;
#include "kernels/fp32/onednn.inc"
#undef MANTISSA_ONEDNN
  void (*set_threads)(int) = nullptr;  // of its OpenMP
  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;
};

// Loads it, once per process. The error says what to install.
Status load_onednn();

// After load_onednn() succeeded.
const OneDnn& onednn();

}  // namespace mantissa::kernels::fp32
