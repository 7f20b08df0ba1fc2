// A mask of padding as an input of the model. Its nodes are not interpreted: the import gives it
// numbers, so that they fold, and attention recognises which positions they hide.
#include <algorithm>
#include <memory>
#include <utility>

#include "onnx/import/inputs.h"
#include "onnx/import/rows.h"

namespace mantissa::onnx {
namespace {

bool is_mask(const ValueData& input) {
  const bool is_number = input.type == ElementType::kInt64 || input.type == ElementType::kInt32 ||
                         input.type == ElementType::kFloat || input.type == ElementType::kBool;
  return is_number && input.dims.size() == 2 && input.name.find("mask") != std::string::npos;
}

template <typename T>
TensorData mask_of(const ValueData& input, const std::vector<int64_t>& lengths, int64_t positions,
                   bool hides) {
  auto numbers = std::make_shared<std::vector<T>>();
  for (const int64_t length : lengths) {
    for (int64_t i = 0; i < positions; ++i) numbers->push_back((i < length) != hides ? T{1} : T{0});
  }
  return {input.name,
          input.type,
          {std::ssize(lengths), positions},
          std::as_bytes(std::span(*numbers)),
          numbers};
}

TensorData mask_numbers(const ValueData& input, const std::vector<int64_t>& lengths,
                        int64_t positions) {
  // PyTorch's src_key_padding_mask marks hidden positions, transformers' attention_mask visible
  // ones.
  const bool hides = input.name.find("padding_mask") != std::string::npos;
  switch (input.type) {
    case ElementType::kInt64:
      return mask_of<int64_t>(input, lengths, positions, hides);
    case ElementType::kInt32:
      return mask_of<int32_t>(input, lengths, positions, hides);
    case ElementType::kFloat:
      return mask_of<float>(input, lengths, positions, hides);
    default:
      return mask_of<uint8_t>(input, lengths, positions, hides);
  }
}

}  // namespace

std::vector<int64_t> take_mask(GraphData& graph, int batch_axis, bool other) {
  std::vector<ValueData>& inputs = graph.inputs;
  const auto mask = std::find_if(inputs.begin(), inputs.end(), is_mask);
  const auto sequence = std::find_if(inputs.begin(), inputs.end(), [](const ValueData& input) {
    return is_sequence(input) && !is_mask(input);
  });
  if (mask == inputs.end() || sequence == inputs.end()) return {};
  const int64_t batch = sequence->dims[static_cast<size_t>(batch_axis)].size;
  const int64_t positions = sequence->dims[static_cast<size_t>(1 - batch_axis)].size;
  constexpr int64_t kMost = 1 << 24;
  if (batch < 1 || positions < 3 || batch > kMost / positions) return {};
  std::vector<int64_t> lengths;  // two choices whose sums differ, too
  const int64_t shorter = other ? positions - 1 : positions / 2;
  for (int64_t n = 0; n < batch; ++n) lengths.push_back(n % 2 == 0 ? shorter : positions);
  graph.initialisers.push_back(mask_numbers(*mask, lengths, positions));
  inputs.erase(mask);
  return lengths;
}

int lengths_of_mask(ImportContext& context) {
  if (context.lengths < 0) {
    context.lengths = context.builder.add_input("lengths", Shape{}, Element::kIndex);
  }
  return context.lengths;
}

Status check_no_padding(const ImportContext& context) {
  if (context.mask_lengths.empty()) return {};
  return invalid_input("reads padding, which the model's mask hides from attention alone");
}

}  // namespace mantissa::onnx
