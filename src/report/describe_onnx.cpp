#include "report/describe_onnx.h"

#include <map>
#include <nlohmann/json.hpp>

#include "onnx/evaluate/evaluate.h"
#include "onnx/files/reader.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

// Sizes, names of open ones, null for others.
OrderedJson shape_json(const onnx::ValueData& value) {
  if (!value.has_shape) return {};
  OrderedJson shape = OrderedJson::array();
  for (const onnx::Dimension& dim : value.dims) {
    shape.push_back(dim.size >= 0      ? OrderedJson(dim.size)
                    : dim.name.empty() ? OrderedJson()
                                       : OrderedJson(dim.name));
  }
  return shape;
}

OrderedJson value_json(const onnx::ValueData& value) {
  return {
      {"name", value.name}, {"type", onnx::element_name(value.type)}, {"shape", shape_json(value)}};
}

OrderedJson layer_json(const onnx::NodeFacts& facts,
                       const std::map<std::string, std::string>& reasons) {
  const onnx::EvaluatedValue* output = facts.outputs.empty() ? nullptr : &facts.outputs[0];
  const bool shaped = output != nullptr && output->shaped;
  const std::string name = onnx::name_of(*facts.node);
  OrderedJson layer = {{"name", name},
                       {"operator", facts.node->op_type},
                       {"shape", shaped ? OrderedJson(output->tensor.dims) : OrderedJson()},
                       {"parameters", facts.parameters},
                       {"multiply_adds", facts.multiply_adds}};
  const auto reason = reasons.find(name);
  if (reason != reasons.end()) layer["problem"] = reason->second;
  return layer;
}

// Nodes of graphs within others are no layers, but they may be problems too.
OrderedJson network_json(const onnx::ModelData& model, const onnx::Survey& survey) {
  std::map<std::string, std::string> reasons;
  OrderedJson problems = OrderedJson::array();
  for (const onnx::Problem& problem : survey.problems) {
    reasons[problem.node] = problem.reason;
    problems.push_back(
        {{"node", problem.node}, {"operator", problem.op_type}, {"reason", problem.reason}});
  }
  OrderedJson json;
  int64_t parameters = 0;
  int64_t multiply_adds = 0;
  OrderedJson layers = OrderedJson::array();
  for (const onnx::NodeFacts& facts : survey.nodes) {
    parameters += facts.parameters;
    multiply_adds += facts.multiply_adds;
    // Shape arithmetic is no layer.
    bool known = !facts.outputs.empty();
    for (const onnx::EvaluatedValue& output : facts.outputs) known = known && output.known;
    if (!known) layers.push_back(layer_json(facts, reasons));
  }
  json["nodes"] = model.graph.nodes.size();
  json["parameters"] = parameters;
  json["multiply_adds"] = multiply_adds;
  json["inputs"] = OrderedJson::array();
  for (const onnx::ValueData* input : onnx::inputs_of(model.graph)) {
    json["inputs"].push_back(value_json(*input));
  }
  json["outputs"] = OrderedJson::array();
  for (size_t i = 0; i < model.graph.outputs.size(); ++i) {
    OrderedJson output = value_json(model.graph.outputs[i]);
    if (survey.outputs[i].shaped) output["shape"] = survey.outputs[i].tensor.dims;
    json["outputs"].push_back(std::move(output));
  }
  json["layers"] = std::move(layers);
  json["unsupported"] = std::move(problems);
  return json;
}

// Inputs whose sizes nobody has said.
OrderedJson open_inputs(const onnx::ModelData& model, const onnx::Shapes& known) {
  OrderedJson notes = OrderedJson::array();
  for (const onnx::ValueData* input : onnx::inputs_of(model.graph)) {
    if (known.contains(input->name)) continue;
    std::string example;
    for (const onnx::Dimension& dim : input->dims) {
      example += example.empty() ? "" : "x";
      example += dim.size >= 0 ? std::to_string(dim.size) : example.empty() ? "1" : "64";
    }
    notes.push_back("input '" + input->name +
                    "' has open sizes: say them for the shapes, --shape " + input->name + "=" +
                    example);
  }
  return notes;
}

}  // namespace

Result<OrderedJson> describe_onnx(const fs::path& path, const onnx::Shapes& shapes) {
  MANTISSA_ASSIGN(const onnx::ModelData model, onnx::read_model(path));
  const onnx::Shapes known = onnx::input_shapes(model, shapes);
  for (const auto& [name, dims] : shapes) {
    if (!known.contains(name))
      return invalid_input("--shape: the network has no input '" + name + "'");
  }
  const Result<onnx::Survey> survey = onnx::survey(model, known);
  if (!survey.ok()) {
    return make_error(survey.error().code, "'" + path.string() + "': " + survey.error().message);
  }
  OrderedJson json;
  json["kind"] = "ONNX network";
  json["path"] = path.string();
  std::error_code gone;
  const auto bytes = fs::file_size(path, gone);
  json["bytes"] = gone ? OrderedJson() : OrderedJson(bytes);
  json["producer"] =
      model.producer_name + (model.producer_version.empty() ? "" : " " + model.producer_version);
  json["ir_version"] = model.ir_version;
  json["opset"] = model.opsets.at("");
  json["metadata"] = OrderedJson::object();
  for (const auto& [key, text] : model.metadata) json["metadata"][key] = text;
  json.update(network_json(model, *survey));
  json["notes"] = open_inputs(model, known);
  if (!json["notes"].empty()) json["multiply_adds"] = nullptr;  // of layers without a shape
  return json;
}

}  // namespace mantissa
