// Pooling over one to three dimensions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/operators/pictures/windows.h"

namespace mantissa::onnx {
namespace {

// Calls function(place in the image) for each tap of output `o` that lies inside the image.
template <typename Function>
void for_taps(const Windows& w, int64_t o, Function function) {
  const int64_t x = o % w.out[2] * w.stride[2] - w.before[2];
  const int64_t y = o / w.out[2] % w.out[1] * w.stride[1] - w.before[1];
  const int64_t z = o / w.out[2] / w.out[1] * w.stride[0] - w.before[0];
  for (int64_t kz = 0; kz < w.kernel[0]; ++kz) {
    const int64_t iz = z + kz * w.dilation[0];
    if (iz < 0 || iz >= w.in[0]) continue;
    for (int64_t ky = 0; ky < w.kernel[1]; ++ky) {
      const int64_t iy = y + ky * w.dilation[1];
      if (iy < 0 || iy >= w.in[1]) continue;
      for (int64_t kx = 0; kx < w.kernel[2]; ++kx) {
        const int64_t ix = x + kx * w.dilation[2];
        if (ix >= 0 && ix < w.in[2]) function((iz * w.in[1] + iy) * w.in[2] + ix);
      }
    }
  }
}

using PoolTypes = Types<float, double, int8_t, uint8_t>;

// The place in an image as MaxPool counts it with storage_order 1: columns first.
int64_t column_major(const Windows& w, int64_t place) {
  const int64_t x = place % w.in[2];
  const int64_t y = place / w.in[2] % w.in[1];
  const int64_t z = place / w.in[2] / w.in[1];
  return (x * w.in[1] + y) * w.in[0] + z;
}

Status max_pool(OpCall& call) {
  const bool ceil = call.integer("ceil_mode", 0) != 0;
  const bool columns_first = call.integer("storage_order", 0) != 0;
  MANTISSA_ASSIGN(const Windows w, windows_of(call, call.integers("kernel_shape"), ceil));
  const Dims dims = w.dims(call.dims(0)[0], call.dims(0)[1], w.out);
  return with_type(PoolTypes(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.wants(1)) MANTISSA_RETURN_IF_ERROR(call.make(1, ElementType::kInt64, dims));
    if (call.shapes_only()) return {};
    call.pool().parallel_for(dims[0] * dims[1], [&](int64_t image, int) {
      const T* in = call.data<T>(0) + image * w.inputs();
      for (int64_t o = 0; o < w.outputs(); ++o) {
        T most = std::numeric_limits<T>::has_infinity
                     ? static_cast<T>(-std::numeric_limits<T>::infinity())
                     : std::numeric_limits<T>::lowest();
        int64_t where = -1;
        for_taps(w, o, [&](int64_t place) {
          if (where >= 0 && !(in[place] > most) && in[place] == in[place]) return;
          most = in[place];
          where = place;
        });
        call.out<T>(0)[image * w.outputs() + o] = most;
        if (!call.wants(1)) continue;
        const int64_t counted =
            columns_first ? column_major(w, std::max<int64_t>(where, 0)) : where;
        call.out<int64_t>(1)[image * w.outputs() + o] = image * w.inputs() + counted;
      }
    });
    return {};
  });
}

// Taps of output `o` within the padded image. A window that is rounded up may reach beyond it.
int64_t padded_taps(const Windows& w, int64_t o) {
  const int64_t place[3] = {o / w.out[2] / w.out[1], o / w.out[2] % w.out[1], o % w.out[2]};
  int64_t taps = 1;
  for (int d = 0; d < 3; ++d) {
    int64_t inside = 0;
    for (int64_t k = 0; k < w.kernel[d]; ++k) {
      inside += place[d] * w.stride[d] + k * w.dilation[d] < w.in[d] + w.before[d] + w.after[d];
    }
    taps *= inside;
  }
  return taps;
}

Status average_pool(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(1));
  const bool ceil = call.integer("ceil_mode", 0) != 0;
  const bool counts_pads = call.integer("count_include_pad", 0) != 0;
  MANTISSA_ASSIGN(const Windows w, windows_of(call, call.integers("kernel_shape"), ceil));
  const Dims dims = w.dims(call.dims(0)[0], call.dims(0)[1], w.out);
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  if (call.shapes_only()) return {};
  call.pool().parallel_for(dims[0] * dims[1], [&](int64_t image, int) {
    const float* in = call.data<float>(0) + image * w.inputs();
    for (int64_t o = 0; o < w.outputs(); ++o) {
      double sum = 0;
      int64_t taps = 0;
      for_taps(w, o, [&](int64_t place) {
        sum += in[place];
        ++taps;
      });
      if (counts_pads) taps = padded_taps(w, o);
      call.out<float>(0)[image * w.outputs() + o] =
          taps == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(taps));
    }
  });
  return {};
}

Status lp_pool(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(1));
  const bool ceil = call.integer("ceil_mode", 0) != 0;
  const auto p = static_cast<double>(call.integer("p", 2));
  MANTISSA_ASSIGN(const Windows w, windows_of(call, call.integers("kernel_shape"), ceil));
  const Dims dims = w.dims(call.dims(0)[0], call.dims(0)[1], w.out);
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  if (call.shapes_only()) return {};
  for (int64_t image = 0; image < dims[0] * dims[1]; ++image) {
    const float* in = call.data<float>(0) + image * w.inputs();
    for (int64_t o = 0; o < w.outputs(); ++o) {
      double sum = 0;
      for_taps(w, o, [&](int64_t place) { sum += std::pow(std::fabs(in[place]), p); });
      call.out<float>(0)[image * w.outputs() + o] = static_cast<float>(std::pow(sum, 1 / p));
    }
  }
  return {};
}

template <typename Function>
Status pool_all(OpCall& call, Function function) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(1));
  if (call.rank(0) < 3) return invalid_input("a value of rank below 3");
  Dims dims = call.dims(0);
  const int64_t size = count_of({dims.begin() + 2, dims.end()});
  if (size == 0) return invalid_input("nothing to pool");
  std::fill(dims.begin() + 2, dims.end(), 1);
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  if (call.shapes_only()) return {};
  for (int64_t image = 0; image < dims[0] * dims[1]; ++image) {
    call.out<float>(0)[image] = function(call.data<float>(0) + image * size, size);
  }
  return {};
}

Status global_average_pool(OpCall& call) {
  return pool_all(call, [](const float* in, int64_t size) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += in[i];
    return static_cast<float>(sum / static_cast<double>(size));
  });
}

Status global_max_pool(OpCall& call) {
  return pool_all(call,
                  [](const float* in, int64_t size) { return *std::max_element(in, in + size); });
}

Status global_lp_pool(OpCall& call) {
  const auto p = static_cast<double>(call.integer("p", 2));
  return pool_all(call, [p](const float* in, int64_t size) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += std::pow(std::fabs(in[i]), p);
    return static_cast<float>(std::pow(sum, 1 / p));
  });
}

constexpr OpRow kPoolingRows[] = {
    {"MaxPool", 1, max_pool, 1,
     "auto_pad ceil_mode dilations kernel_shape pads storage_order strides", kNewestOpset, 2},
    {"AveragePool", 1, average_pool, 1,
     "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"LpPool", 2, lp_pool, 1, "auto_pad ceil_mode dilations kernel_shape p pads strides"},
    {"GlobalAveragePool", 1, global_average_pool},
    {"GlobalLpPool", 2, global_lp_pool, 1, "p"},
    {"GlobalMaxPool", 1, global_max_pool},
};

}  // namespace

std::span<const OpRow> pooling_operators() { return kPoolingRows; }

}  // namespace mantissa::onnx
