// Functions of a model's own (FunctionProto): the nodes of their bodies take the place of calls.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/files/read_budget.h"
#include "onnx/files/read_context.h"
#include "onnx/files/read_graph.h"
#include "onnx/model.h"

namespace mantissa::onnx {

struct FunctionData {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<NodeAttribute> defaults;  // of attributes that a call may leave out
  std::vector<NodeData> nodes;
  Opsets opsets;
};

Status read_function(ReadContext& context, std::span<const std::byte> message,
                     FunctionData& function);

// Values and nodes of a body get names that begin with the call's. Errors: functions that call
// themselves, or each other too deep; more nodes or memory than the budget has left.
Status inline_functions(const std::vector<FunctionData>& functions, ReadBudget& budget,
                        ModelData& model);

}  // namespace mantissa::onnx
