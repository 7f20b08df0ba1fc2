// Parts of graphs in an ONNX file that functions have, too. `nesting`: how many graphs they lie in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "onnx/files/read_context.h"
#include "onnx/model.h"

namespace mantissa::onnx {

using Opsets = std::map<std::string, int64_t>;  // by domain

Status read_attribute(ReadContext& context, std::span<const std::byte> message, int nesting,
                      NodeAttribute& attribute);
Status read_node(ReadContext& context, std::span<const std::byte> message, int nesting,
                 NodeData& node);
Status read_opset(ReadContext& context, std::span<const std::byte> message, Opsets& opsets);

}  // namespace mantissa::onnx
