// A TensorFlow Lite model as data: tensors, operators in their order, and metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace mantissa::tflite {

enum class Type : uint8_t { kInt32, kUint8, kInt8 };
enum class Activation : uint8_t { kNone, kRelu };

enum class Code : uint8_t {
  kAdd,
  kConcatenation,
  kConvolution,
  kDepthwise,
  kFullyConnected,
  kMaxPool,
  kRelu,
  kReshape,
  kPad,
  kQuantize,
};

struct TensorData {
  std::string name;
  Type type = Type::kInt8;
  std::vector<int32_t> dims;
  std::vector<float> scales = {};  // empty: no numbers; several: one for each part along `axis`
  int64_t zero = 0;
  int axis = 0;
  std::vector<std::byte> bytes = {};  // empty: computed
};

struct Operation {
  Code code;
  std::vector<int> inputs, outputs;  // tensors
  Activation activation = Activation::kNone;
  // Of windows.
  bool is_same = false;  // SAME padding, else VALID
  int stride_height = 1, stride_width = 1;
  int window_height = 1, window_width = 1;  // of pools
  int axis = 0;                             // of concatenation
};

struct ModelData {
  std::string name;
  std::vector<TensorData> tensors;
  std::vector<Operation> operations;
  std::vector<int> inputs, outputs;
  std::map<std::string, std::string> metadata;
};

// The bytes of the file. The same model gives the same bytes.
Result<std::string> model_bytes(const ModelData& model);

}  // namespace mantissa::tflite
