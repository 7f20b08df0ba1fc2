// A model's flatbuffer.
#include <algorithm>
#include <iterator>
#include <limits>

#include "tflite/model.h"
#include "tflite/schema_generated.h"

namespace mantissa::tflite {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

constexpr uint32_t kSchemaVersion = 3;
constexpr size_t kBufferAlignment = 16;
constexpr int32_t kFirstOtherCode = 127;  // of operators that the first form of codes cannot name

// By Code: TensorFlow Lite's number, and the version with int8 of these shapes.
struct CodeRow {
  schema::BuiltinOperator code;
  int version;
};
constexpr CodeRow kCodes[] = {
    {schema::BuiltinOperator::kAdd, 2},
    {schema::BuiltinOperator::kConcatenation, 2},
    {schema::BuiltinOperator::kConv2D, 3},
    {schema::BuiltinOperator::kDepthwiseConv2D, 3},
    {schema::BuiltinOperator::kFullyConnected, 4},
    {schema::BuiltinOperator::kMaxPool2D, 2},
    {schema::BuiltinOperator::kRelu, 2},
    {schema::BuiltinOperator::kReshape, 1},
    {schema::BuiltinOperator::kPad, 2},
    {schema::BuiltinOperator::kQuantize, 1},
};

schema::TensorType type_of(Type type) {
  if (type == Type::kInt32) return schema::TensorType::kInt32;
  return type == Type::kUint8 ? schema::TensorType::kUint8 : schema::TensorType::kInt8;
}

schema::Activation activation_of(Activation activation) {
  return activation == Activation::kNone ? schema::Activation::kNone : schema::Activation::kRelu;
}

class Writer {
 public:
  explicit Writer(const ModelData& model) : model_(model) { add_buffer({}); }

  std::string run() {
    std::vector<Offset<schema::Tensor>> tensors;
    for (const TensorData& tensor : model_.tensors) tensors.push_back(add(tensor));
    std::vector<Offset<schema::Operator>> operators;
    for (const Operation& operation : model_.operations) operators.push_back(add(operation));
    const std::vector<Offset<schema::SubGraph>> graphs = {schema::CreateSubGraphDirect(
        to_, &tensors, &model_.inputs, &model_.outputs, &operators, model_.name.c_str())};
    std::vector<Offset<schema::Metadata>> metadata;
    for (const auto& [name, text] : model_.metadata) {
      const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
      const uint32_t buffer = add_buffer({bytes, bytes + text.size()});
      metadata.push_back(schema::CreateMetadataDirect(to_, name.c_str(), buffer));
    }
    to_.Finish(schema::CreateModelDirect(to_, kSchemaVersion, &codes_, &graphs, "mantissa",
                                         &buffers_, nullptr, &metadata),
               schema::ModelIdentifier());
    const auto* bytes = reinterpret_cast<const char*>(to_.GetBufferPointer());
    return {bytes, bytes + to_.GetSize()};
  }

 private:
  uint32_t add_buffer(const std::vector<std::byte>& bytes) {
    Offset<flatbuffers::Vector<uint8_t>> data;
    if (!bytes.empty()) {
      to_.ForceVectorAlignment(bytes.size(), 1, kBufferAlignment);
      data = to_.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    }
    buffers_.push_back(schema::CreateBuffer(to_, data));
    return static_cast<uint32_t>(buffers_.size() - 1);
  }

  Offset<schema::Tensor> add(const TensorData& tensor) {
    Offset<schema::Quantization> quantization;
    if (!tensor.scales.empty()) {
      const std::vector<int64_t> zeros(tensor.scales.size(), tensor.zero);
      quantization = schema::CreateQuantizationDirect(to_, nullptr, nullptr, &tensor.scales, &zeros,
                                                      0, 0, tensor.axis);
    }
    const uint32_t buffer = tensor.bytes.empty() ? 0 : add_buffer(tensor.bytes);
    return schema::CreateTensorDirect(to_, &tensor.dims, type_of(tensor.type), buffer,
                                      tensor.name.c_str(), quantization);
  }

  Offset<schema::Operator> add(const Operation& operation) {
    const auto [type, options] = options_of(operation);
    return schema::CreateOperatorDirect(to_, code_index(operation.code), &operation.inputs,
                                        &operation.outputs, type, options);
  }

  uint32_t code_index(Code code) {
    const auto found = std::ranges::find(used_, code);
    if (found == used_.end()) {
      const CodeRow& row = kCodes[static_cast<size_t>(code)];
      const int32_t old = std::min(static_cast<int32_t>(row.code), kFirstOtherCode);
      codes_.push_back(
          schema::CreateOperatorCode(to_, static_cast<int8_t>(old), 0, row.version, row.code));
      used_.push_back(code);
      return static_cast<uint32_t>(used_.size() - 1);
    }
    return static_cast<uint32_t>(found - used_.begin());
  }

  std::pair<schema::BuiltinOptions, Offset<void>> options_of(const Operation& o) {
    using Options = schema::BuiltinOptions;
    const auto activation = activation_of(o.activation);
    const auto padding = o.is_same ? schema::Padding::kSame : schema::Padding::kValid;
    switch (o.code) {
      case Code::kAdd:
        return {Options::AddOptions, schema::CreateAddOptions(to_, activation).Union()};
      case Code::kConcatenation:
        return {Options::ConcatenationOptions,
                schema::CreateConcatenationOptions(to_, o.axis, activation).Union()};
      case Code::kConvolution:
        return {Options::Conv2DOptions, schema::CreateConv2DOptions(to_, padding, o.stride_width,
                                                                    o.stride_height, activation)
                                            .Union()};
      case Code::kDepthwise:
        return {Options::DepthwiseConv2DOptions,
                schema::CreateDepthwiseConv2DOptions(to_, padding, o.stride_width, o.stride_height,
                                                     1, activation)
                    .Union()};
      case Code::kFullyConnected:
        return {Options::FullyConnectedOptions,
                schema::CreateFullyConnectedOptions(to_, activation).Union()};
      case Code::kMaxPool:
        return {Options::Pool2DOptions,
                schema::CreatePool2DOptions(to_, padding, o.stride_width, o.stride_height,
                                            o.window_width, o.window_height, activation)
                    .Union()};
      case Code::kReshape:
        return {Options::ReshapeOptions, schema::CreateReshapeOptions(to_).Union()};
      case Code::kPad:
        return {Options::PadOptions, schema::CreatePadOptions(to_).Union()};
      case Code::kQuantize:
        return {Options::QuantizeOptions, schema::CreateQuantizeOptions(to_).Union()};
      case Code::kRelu:
        break;
    }
    return {Options::NONE, 0};
  }

  const ModelData& model_;
  FlatBufferBuilder to_;
  std::vector<Offset<schema::Buffer>> buffers_;
  std::vector<Offset<schema::OperatorCode>> codes_;
  std::vector<Code> used_;  // in the order of codes_
};

}  // namespace

Result<std::string> model_bytes(const ModelData& model) {
  // Offsets in a flatbuffer have 32 bits, the first of which is a sign.
  constexpr size_t kMostBytes = std::numeric_limits<int32_t>::max() / 2;
  size_t bytes = 0;
  for (const TensorData& tensor : model.tensors) bytes += tensor.bytes.size();
  if (bytes > kMostBytes) return invalid_input("is larger than a file of 2 GiB holds");
  return Writer(model).run();
}

}  // namespace mantissa::tflite
