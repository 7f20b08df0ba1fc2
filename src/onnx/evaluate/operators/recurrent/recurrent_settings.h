// Sizes and attributes of recurrent operators, checked.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "onnx/evaluate/call.h"

namespace mantissa::onnx {

using GateFunction = float (*)(float);

struct RecurrentSizes {
  int64_t steps = 0, batch = 0, inputs = 0, channels = 0, gates = 0, directions = 0;
  bool by_example = false;  // layout 1: examples are outermost
  int64_t columns() const { return gates * channels; }
  int64_t row(int64_t step, int64_t example) const {
    return by_example ? example * steps + step : step * batch + example;
  }
};

// Attributes and other values that are the same for all directions.
struct RecurrentSettings {
  RecurrentSizes sizes;
  std::string direction;
  std::vector<GateFunction> functions;  // one direction after the other
  float clip = INFINITY;
  bool couples = false;         // LSTM: the forget gate is 1 - the input gate
  bool resets_product = false;  // GRU's linear_before_reset
  size_t functions_each() const { return functions.size() / static_cast<size_t>(sizes.directions); }
};

// The inputs' places: RNN and GRU have no cell and no peepholes.
enum RecurrentInput : size_t { kX, kW, kR, kB, kLengths, kStart, kStartCell, kPeepholes };

// The settings of a node of a kind with this many gates. These functions are the defaults. Errors:
// inputs whose dims or types do not match the weights, functions other than Sigmoid, Tanh and Relu.
Result<RecurrentSettings> recurrent_settings(OpCall& call, int64_t gates,
                                             const std::vector<std::string>& functions);

}  // namespace mantissa::onnx
