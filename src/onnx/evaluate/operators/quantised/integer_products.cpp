// Products and convolutions of whole numbers of 8 bits, exact modulo 2^32, and those that are
// quantised again after it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/operators/pictures/windows.h"

namespace mantissa::onnx {
namespace {

using Bytes = Types<int8_t, uint8_t>;

// Numbers without their zero points. A zero point is one number, or one for each place along
// `axis`.
Result<std::vector<uint32_t>> centred(OpCall& call, size_t i, size_t zero, int64_t axis) {
  const Dims& dims = call.dims(i);
  const int64_t count = count_of(dims);
  std::vector<uint32_t> numbers(count);
  MANTISSA_RETURN_IF_ERROR(with_type(Bytes(), call.type(i), [&]<typename T>() -> Status {
    const bool has_zero = call.has(zero);
    const int64_t zeros = has_zero ? count_of(call.dims(zero)) : 1;
    const int64_t inner = count_of({dims.begin() + axis + 1, dims.end()});
    for (int64_t k = 0; k < count; ++k) {
      const int64_t place = zeros == 1 ? 0 : k / inner % zeros;
      const int32_t offset = has_zero ? call.data<T>(zero)[place] : 0;
      numbers[k] = static_cast<uint32_t>(call.data<T>(i)[k] - offset);
    }
    return {};
  }));
  return numbers;
}

// One number, or a list of one for each of `size`.
bool is_list(const Dims& dims, int64_t size) { return count_of(dims) == 1 || dims == Dims{size}; }

Status check_bytes(OpCall& call, size_t i, size_t zero) {
  return with_type(Bytes(), call.type(i), [&]<typename T>() -> Status {
    if (!call.has(zero) || call.type(zero) == call.type(i)) return {};
    return invalid_input("a zero point of another type than its numbers");
  });
}

// Inputs by their places; ONNX's two forms of each operator order them differently.
struct Operands {
  size_t left, left_zero, right, right_zero;
};

struct Product {
  Dims batch, left, right, dims;
  int64_t rows, depth, columns;
};

Result<Product> product_of(OpCall& call, const Operands& in) {
  MANTISSA_RETURN_IF_ERROR(check_bytes(call, in.left, in.left_zero));
  MANTISSA_RETURN_IF_ERROR(check_bytes(call, in.right, in.right_zero));
  Product p;
  p.left = call.dims(in.left);
  p.right = call.dims(in.right);
  if (p.left.empty() || p.right.empty()) return invalid_input("a single number");
  const bool row = p.left.size() == 1;
  const bool column = p.right.size() == 1;
  if (row) p.left.insert(p.left.begin(), 1);
  if (column) p.right.push_back(1);
  p.rows = *(p.left.end() - 2);
  p.depth = p.left.back();
  p.columns = p.right.back();
  if (*(p.right.end() - 2) != p.depth) {
    return invalid_input("dims " + to_text(call.dims(in.left)) + " and " +
                         to_text(call.dims(in.right)) + " do not go together");
  }
  p.left.resize(p.left.size() - 2);
  p.right.resize(p.right.size() - 2);
  MANTISSA_ASSIGN(p.batch, broadcast(p.left, p.right));
  p.dims = p.batch;
  if (!row) p.dims.push_back(p.rows);
  if (!column) p.dims.push_back(p.columns);
  if ((call.has(in.left_zero) && !is_list(call.dims(in.left_zero), p.rows)) ||
      (call.has(in.right_zero) && !is_list(call.dims(in.right_zero), p.columns))) {
    return invalid_input("zero points of other dims than rows and columns");
  }
  return p;
}

// Sums modulo 2^32, row by row.
Result<std::vector<uint32_t>> multiply_bytes(OpCall& call, const Operands& in, const Product& p) {
  const int64_t row_axis = std::max<int64_t>(call.rank(in.left) - 2, 0);
  const int64_t column_axis = call.rank(in.right) - 1;
  MANTISSA_ASSIGN(const std::vector<uint32_t> left, centred(call, in.left, in.left_zero, row_axis));
  MANTISSA_ASSIGN(const std::vector<uint32_t> right,
                  centred(call, in.right, in.right_zero, column_axis));
  std::vector<uint32_t> sums(count_of(p.dims));
  uint32_t* out = sums.data();
  const Loops loops =
      merged({p.batch, {broadcast_strides(p.left, p.batch), broadcast_strides(p.right, p.batch)}});
  walk(loops, [&](const int64_t* offsets, const int64_t* steps, int64_t count) {
    for (int64_t i = 0; i < count; ++i, out += p.rows * p.columns) {
      const uint32_t* a = left.data() + (offsets[0] + i * steps[0]) * p.rows * p.depth;
      const uint32_t* b = right.data() + (offsets[1] + i * steps[1]) * p.depth * p.columns;
      call.pool().parallel_for(p.rows, [&](int64_t row, int) {
        for (int64_t k = 0; k < p.depth; ++k) {
          const uint32_t factor = a[row * p.depth + k];
          for (int64_t j = 0; j < p.columns; ++j) {
            out[row * p.columns + j] += factor * b[k * p.columns + j];
          }
        }
      });
    }
  });
  return sums;
}

struct ByteConvolution {
  Windows windows;
  int64_t batch, groups, in_channels, out_channels;  // channels of a group
  Dims dims;
};

Result<ByteConvolution> byte_convolution_of(OpCall& call, const Operands& in) {
  MANTISSA_RETURN_IF_ERROR(check_bytes(call, in.left, in.left_zero));
  MANTISSA_RETURN_IF_ERROR(check_bytes(call, in.right, in.right_zero));
  const Dims& weights = call.dims(in.right);
  const Dims& from = call.dims(in.left);
  ByteConvolution c;
  c.groups = call.integer("group", 1);
  if (weights.size() < 3 || from.size() != weights.size() || c.groups < 1 || c.groups > INT32_MAX ||
      weights[1] * c.groups != from[1] || weights[0] % c.groups != 0) {
    return invalid_input("weights of dims " + to_text(weights) + " and group " +
                         std::to_string(c.groups) + " for a value of dims " + to_text(from));
  }
  const Dims kernel(weights.begin() + 2, weights.end());
  const Dims given = call.integers("kernel_shape");
  if (!given.empty() && given != kernel) {
    return invalid_input("a kernel_shape other than the weights'");
  }
  if ((call.has(in.left_zero) && count_of(call.dims(in.left_zero)) != 1) ||
      (call.has(in.right_zero) && !is_list(call.dims(in.right_zero), weights[0]))) {
    return invalid_input("zero points of other dims than output channels");
  }
  MANTISSA_ASSIGN(c.windows, windows_of(call, kernel, false));
  c.batch = from[0];
  c.in_channels = weights[1];
  c.out_channels = weights[0] / c.groups;
  c.dims = c.windows.dims(c.batch, weights[0], c.windows.out);
  return c;
}

// One output channel of one image, tap by tap.
void convolve_bytes(const ByteConvolution& c, const uint32_t* image, const uint32_t* weight,
                    uint32_t* out) {
  const Windows& w = c.windows;
  for (int64_t i = 0; i < c.in_channels; ++i, image += w.inputs(), weight += w.taps()) {
    for_each_row(w, [&](int64_t tap, int64_t input, int64_t output, Range columns) {
      const uint32_t* row = image + input;
      uint32_t* sums = out + output;
      for (int64_t k = columns.first; k < columns.last; ++k) {
        sums[k] += weight[tap] * row[k * w.stride[2]];
      }
    });
  }
}

Result<std::vector<uint32_t>> convolve_all(OpCall& call, const Operands& in,
                                           const ByteConvolution& c) {
  MANTISSA_ASSIGN(const std::vector<uint32_t> image, centred(call, in.left, in.left_zero, 0));
  MANTISSA_ASSIGN(const std::vector<uint32_t> weights, centred(call, in.right, in.right_zero, 0));
  std::vector<uint32_t> sums(count_of(c.dims));
  const int64_t channels = c.groups * c.out_channels;
  call.pool().parallel_for(c.batch * channels, [&](int64_t task, int) {
    const int64_t group = task % channels / c.out_channels;
    const int64_t first = (task / channels * c.groups + group) * c.in_channels;
    convolve_bytes(c, image.data() + first * c.windows.inputs(),
                   weights.data() + task % channels * c.in_channels * c.windows.taps(),
                   sums.data() + task * c.windows.outputs());
  });
  return sums;
}

Status write_sums(OpCall& call, const Result<std::vector<uint32_t>>& sums) {
  if (!sums.ok()) return sums.error();
  std::transform(sums->begin(), sums->end(), call.out<int32_t>(0),
                 [](uint32_t sum) { return static_cast<int32_t>(sum); });
  return {};
}

Status mat_mul_integer(OpCall& call) {
  constexpr Operands kIn = {0, 2, 1, 3};
  MANTISSA_ASSIGN(const Product p, product_of(call, kIn));
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kInt32, p.dims));
  return call.shapes_only() ? Status() : write_sums(call, multiply_bytes(call, kIn, p));
}

Status conv_integer(OpCall& call) {
  constexpr Operands kIn = {0, 2, 1, 3};
  MANTISSA_ASSIGN(const ByteConvolution c, byte_convolution_of(call, kIn));
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kInt32, c.dims));
  return call.shapes_only() ? Status() : write_sums(call, convolve_all(call, kIn, c));
}

// Sums in units of the input's scale times the weights' scale become numbers of the output's scale:
// by one float factor, to the nearest whole number, ties to even, as ONNX Runtime has it. Scales of
// weights are one, or one for each of `channels`, of which each has `inner` sums beside each other.
Status requantise(OpCall& call, const std::vector<uint32_t>& sums, int64_t channels,
                  int64_t inner) {
  const bool each = count_of(call.dims(4)) > 1;
  const float in_scale = *call.data<float>(1);
  const float out_scale = *call.data<float>(6);
  return with_type(Bytes(), call.type(7), [&]<typename T>() -> Status {
    const auto zero = static_cast<float>(*call.data<T>(7));
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto channel = static_cast<int64_t>(i) / inner % channels;
      const float factor = in_scale * call.data<float>(4)[each ? channel : 0] / out_scale;
      const float number =
          std::nearbyint(static_cast<float>(static_cast<int32_t>(sums[i])) * factor) + zero;
      constexpr float kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
      call.out<T>(0)[i] =
          std::isnan(number) ? T{0} : static_cast<T>(std::clamp(number, kLeast, kMost));
    }
    return {};
  });
}

constexpr Operands kQuantisedIn = {0, 2, 3, 5};

Status check_scales(OpCall& call, int64_t channels) {
  for (const size_t i : {1, 4, 6}) {
    const bool fits = i == 4 ? is_list(call.dims(i), channels) : count_of(call.dims(i)) == 1;
    if (call.type(i) != ElementType::kFloat || !fits) {
      return invalid_input("a scale of " + std::string(element_name(call.type(i))) + " " +
                           to_text(call.dims(i)));
    }
  }
  if (count_of(call.dims(7)) == 1) return {};
  return invalid_input("a zero point that is no single number");
}

Status qlinear_mat_mul(OpCall& call) {
  MANTISSA_ASSIGN(const Product p, product_of(call, kQuantisedIn));
  MANTISSA_RETURN_IF_ERROR(check_scales(call, p.columns));
  MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(7), p.dims));
  if (call.shapes_only()) return {};
  MANTISSA_ASSIGN(const std::vector<uint32_t> sums, multiply_bytes(call, kQuantisedIn, p));
  return requantise(call, sums, p.columns, 1);
}

Status qlinear_conv(OpCall& call) {
  MANTISSA_ASSIGN(const ByteConvolution c, byte_convolution_of(call, kQuantisedIn));
  const int64_t channels = c.groups * c.out_channels;
  MANTISSA_RETURN_IF_ERROR(check_scales(call, channels));
  if (call.has(8) && (call.dims(8) != Dims{channels} || call.type(8) != ElementType::kInt32)) {
    return invalid_input("a bias of dims " + to_text(call.dims(8)));
  }
  MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(7), c.dims));
  if (call.shapes_only()) return {};
  MANTISSA_ASSIGN(std::vector<uint32_t> sums, convolve_all(call, kQuantisedIn, c));
  for (size_t i = 0; call.has(8) && i < sums.size(); ++i) {
    const auto channel = static_cast<int64_t>(i) / c.windows.outputs() % channels;
    sums[i] += static_cast<uint32_t>(call.data<int32_t>(8)[channel]);
  }
  return requantise(call, sums, channels, c.windows.outputs());
}

constexpr const char* kWindow = "auto_pad dilations group kernel_shape pads strides";

constexpr OpRow kIntegerProductRows[] = {
    {"MatMulInteger", 10, mat_mul_integer, {2, 4}},
    {"ConvInteger", 10, conv_integer, {2, 4}, kWindow},
    {"QLinearMatMul", 10, qlinear_mat_mul, 8},
    {"QLinearConv", 10, qlinear_conv, {8, 9}, kWindow},
};

}  // namespace

std::span<const OpRow> integer_product_operators() { return kIntegerProductRows; }

}  // namespace mantissa::onnx
