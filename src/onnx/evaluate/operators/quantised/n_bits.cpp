#include "onnx/evaluate/operators/quantised/n_bits.h"

#include <string>

#include "onnx/files/node_values.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kByte = 8, kLeastBlock = 16, kMostBlock = 1 << 20;

int64_t elements(const TensorData& tensor) {
  int64_t count = 1;
  for (const int64_t dim : tensor.dims) count *= dim;
  return count;
}

template <typename T>
const T* data_of(const TensorData& tensor) {
  return reinterpret_cast<const T*>(tensor.bytes.data());
}

// Number i of a run of numbers of 2, 4 or 8 bits, the first in the lowest bits.
int packed_number(const uint8_t* bytes, int64_t i, int64_t bits) {
  const int64_t each = kByte / bits;
  return bytes[i / each] >> (i % each * bits) & ((1 << bits) - 1);
}

// Zero points of a column begin with a byte.
int64_t zero_bytes(const NBits& n) { return (n.blocks() * n.bits + kByte - 1) / kByte; }

// The zero point of block b of a column.
float zero_of(const NBits& n, const TensorData* zeros, int64_t column, int64_t b) {
  if (zeros == nullptr) return static_cast<float>(1 << (n.bits - 1));
  if (zeros->type == ElementType::kFloat) {
    return data_of<float>(*zeros)[column * n.blocks() + b];
  }
  const uint8_t* row = data_of<uint8_t>(*zeros) + column * zero_bytes(n);
  return static_cast<float>(packed_number(row, b, n.bits));
}

}  // namespace

Result<NBits> n_bits_of(const NodeData& node) {
  const NBits n{whole_of(node, "K", 0), whole_of(node, "N", 0), whole_of(node, "bits", 4),
                whole_of(node, "block_size", 0)};
  const bool has_bits = n.bits == 2 || n.bits == 4 || n.bits == 8;
  constexpr int64_t kMost = int64_t{1} << 31;
  const bool has_sizes = n.depth > 0 && n.columns > 0 && n.depth < kMost && n.columns < kMost &&
                         n.block >= kLeastBlock && n.block <= kMostBlock;
  if (has_bits && has_sizes) return n;
  return invalid_input("weights of " + std::to_string(n.bits) + " bits in blocks of " +
                       std::to_string(n.block));
}

Status check_n_bits(const NBits& n, const NBitsTensors& tensors) {
  const int64_t scales = n.columns * n.blocks();
  bool fits = tensors.numbers->type == ElementType::kUint8 &&
              elements(*tensors.numbers) == scales * n.block * n.bits / kByte &&
              tensors.scales->type == ElementType::kFloat && elements(*tensors.scales) == scales;
  if (const TensorData* zeros = tensors.zeros) {
    const bool is_packed = zeros->type == ElementType::kUint8;
    fits = fits && (is_packed || zeros->type == ElementType::kFloat) &&
           elements(*zeros) == (is_packed ? zero_bytes(n) * n.columns : scales);
  }
  if (fits) return {};
  return invalid_input("weights, scales or zero points of another type or number");
}

std::vector<float> unpacked(const NBits& n, const NBitsTensors& tensors) {
  std::vector<float> weights(static_cast<size_t>(n.columns * n.depth));
  const int64_t block_bytes = n.block * n.bits / kByte;
  for (int64_t column = 0; column < n.columns; ++column) {
    for (int64_t k = 0; k < n.depth; ++k) {
      const int64_t b = k / n.block, at = column * n.blocks() + b;
      const uint8_t* bytes = data_of<uint8_t>(*tensors.numbers) + at * block_bytes;
      const auto number = static_cast<float>(packed_number(bytes, k % n.block, n.bits));
      weights[static_cast<size_t>(column * n.depth + k)] =
          (number - zero_of(n, tensors.zeros, column, b)) * data_of<float>(*tensors.scales)[at];
    }
  }
  return weights;
}

}  // namespace mantissa::onnx
