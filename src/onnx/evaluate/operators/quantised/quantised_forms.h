// Operators on quantised numbers that do the same as an operator on real numbers: each input has a
// scale and a zero point behind it, and so has the result.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/model.h"

namespace mantissa::onnx {

// A value among a node's inputs; its scale and zero point are the next two.
struct QuantisedForm {
  std::string_view twin;       // the operator on real numbers
  std::vector<size_t> values;  // inputs
  size_t result = 0;           // the input that is the result's scale; its zero point is the next
};

// The form of such a node; an empty twin: it is none.
QuantisedForm quantised_form(const NodeData& node);

// The node on real numbers that has the same attributes.
NodeData twin_of(const NodeData& node, const QuantisedForm& form);

}  // namespace mantissa::onnx
