#include "mantissa/own_operator.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <utility>

#include "api/public_values.h"
#include "models/json/operators.h"
#include "ops/wide_values.h"

namespace mantissa {
namespace {

// A row of the table of operators that knows its functions.
struct OwnRow : Op {
  OwnOperator own;
  std::deque<std::string> texts;  // names and defaults that the schema points to
  std::vector<AttributeSpec> schema;
};

const OwnOperator& own_of(const Op& op) { return static_cast<const OwnRow&>(op).own; }

// The attributes of an own operator: the map that its functions get. In a struct of this file,
// since the library would export the tag of a public type.
struct OwnAttributes {
  OperatorSettings settings;
};

std::shared_ptr<const void> make_settings(std::span<const AttributeSpec>,
                                          std::span<const AttributeItem> items) {
  return std::make_shared<const OwnAttributes>(
      OwnAttributes{.settings = {items.begin(), items.end()}});
}

Result<std::vector<ValueType>> infer(const Op& op, const Attributes& attributes,
                                     std::span<const Shape> inputs) {
  const OwnOperator& own = own_of(op);
  if (std::ssize(inputs) != own.inputs) {
    return invalid_input("wants " + std::to_string(own.inputs) + " inputs");
  }
  if (!own.shape) return std::vector<ValueType>{{inputs[0]}};
  std::vector<Dims> dims;
  for (const Shape& shape : inputs) dims.push_back(dims_of(shape));
  const Outcome<Dims> found = own.shape(attributes.as<OwnAttributes>().settings, dims);
  if (!found.ok()) return invalid_input(found.error());
  MANTISSA_ASSIGN(const Shape shape, shape_of(*found));
  return std::vector<ValueType>{{shape}};
}

MantissaView view_of(const Tensor& tensor) {
  if (tensor.empty()) return {};
  return {.data = tensor.data,
          .bytes = static_cast<int>(element_bytes(tensor.type)),
          .exponent = *tensor.exponent,
          .dims = dims_of(tensor.shape)};
}

OperatorCall call_of(const OpContext& c) {
  OperatorCall call{c.attributes<OwnAttributes>().settings, {}, {}, {}};
  for (const Tensor& input : c.inputs) call.inputs.push_back(view_of(input));
  call.output = dims_of(c.output().empty() ? c.grad_output().shape : c.output().shape);
  call.gradient = view_of(c.grad_output());
  return call;
}

void forward(const OpContext& c) {
  const Wide wide = own_of(*c.node.op).forward(call_of(c));
  ops::write_wide(c, wide.exponent, wide.number);
}

void backward_input(const OpContext& c) {
  const OperatorCall call = call_of(c);
  for (size_t i = 0; i < c.grad_inputs.size(); ++i) {
    const Tensor& grad_input = c.grad_inputs[i];
    if (grad_input.empty()) continue;
    const Wide wide = own_of(*c.node.op).gradient(call, static_cast<int>(i));
    ops::write_wide_gradient(c, grad_input, wide.exponent, wide.number);
  }
}

bool is_name(const std::string& name) {
  constexpr size_t kLongest = 60;
  return !name.empty() && name.size() <= kLongest &&
         std::all_of(name.begin(), name.end(), [](char letter) {
           return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                  (letter >= '0' && letter <= '9') || letter == '_';
         });
}

AttributeSpec spec_of(const OwnSetting& setting, std::deque<std::string>& texts) {
  AttributeSpec spec;
  spec.name = texts.emplace_back(setting.name).c_str();
  spec.type = static_cast<AttributeType>(setting.otherwise.index());
  spec.least = setting.least;
  spec.most = setting.most;
  if (const auto* whole = std::get_if<int64_t>(&setting.otherwise)) spec.whole = *whole;
  if (const auto* real = std::get_if<double>(&setting.otherwise)) spec.real = *real;
  if (const auto* text = std::get_if<std::string>(&setting.otherwise)) {
    spec.text = texts.emplace_back(*text).c_str();
  }
  return spec;
}

Failure refused(const std::string& why) { return {Exit::kInvalidInput, why}; }

}  // namespace

Outcome<Done> register_operator(OwnOperator op) {
  const std::string subject = "operator '" + op.name + "': ";
  if (!is_name(op.name)) {
    return refused(subject + "a name is up to 60 letters, digits and _");
  }
  if (find_operator(op.name) != nullptr) return refused(subject + "there is one of that name");
  if (op.inputs < 1) return refused(subject + "wants an input");
  if (!op.forward) return refused(subject + "has no forward function");
  auto row = std::make_unique<OwnRow>();
  for (const OwnSetting& setting : op.settings) {
    if (!is_name(setting.name)) return refused(subject + "a setting has no name for files");
    row->schema.push_back(spec_of(setting, row->texts));
  }
  row->own = std::move(op);
  row->name = row->texts.emplace_back(row->own.name).c_str();
  row->attributes = {
      .specs = row->schema, .make = make_settings, .type_tag = &kTypeTag<OwnAttributes>};
  row->infer_own = infer;
  row->integer.forward = {.run = forward};
  if (row->own.gradient) {
    row->integer.grad_input = {.run = backward_input};
    row->emit_gradient = emit_gradient_by_inputs;
  }
  add_operator(std::move(row));
  return Done{};
}

}  // namespace mantissa
