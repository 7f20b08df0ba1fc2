#include "onnx/evaluate/operators/quantised/quantised_forms.h"

#include <algorithm>

namespace mantissa::onnx {
namespace {

struct FormRow {
  std::string_view name, twin;
  int values;  // 0: any number, behind the result's scale and zero point
};

constexpr FormRow kForms[] = {
    {"QLinearAdd", "Add", 2},
    {"QLinearAveragePool", "AveragePool", 1},
    {"QLinearConcat", "Concat", 0},
    {"QLinearGlobalAveragePool", "GlobalAveragePool", 1},
    {"QLinearLeakyRelu", "LeakyRelu", 1},
    {"QLinearMul", "Mul", 2},
    {"QLinearSigmoid", "Sigmoid", 1},
    {"QLinearSoftmax", "Softmax", 1},
};

}  // namespace

QuantisedForm quantised_form(const NodeData& node) {
  if (node.domain != "com.microsoft") return {};
  const auto* row = std::find_if(std::begin(kForms), std::end(kForms),
                                 [&](const FormRow& form) { return form.name == node.op_type; });
  if (row == std::end(kForms)) return {};
  QuantisedForm form{row->twin, {}, 0};
  const size_t first = row->values == 0 ? 2 : 0;
  const size_t end = row->values == 0 ? node.inputs.size() : static_cast<size_t>(row->values) * 3;
  for (size_t i = first; i + 3 <= end; i += 3) form.values.push_back(i);
  if (row->values > 0) form.result = end;
  return form;
}

NodeData twin_of(const NodeData& node, const QuantisedForm& form) {
  NodeData twin;
  twin.name = node.name;
  twin.op_type = form.twin;
  for (const NodeAttribute& attribute : node.attributes) {
    if (attribute.name == "channels_last" || attribute.name == "opset") continue;
    twin.attributes.push_back(attribute);
  }
  return twin;
}

}  // namespace mantissa::onnx
