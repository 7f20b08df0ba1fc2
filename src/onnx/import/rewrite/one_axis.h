// Networks of pictures of one row: operators over one axis become operators over two.
#pragma once

#include "onnx/model.h"

namespace mantissa::onnx {

// Where the channels of the model's input are, if its nodes read it as positions with channels.
enum class SignalAxes : uint8_t { kNone, kChannelsFirst, kChannelsLast };

// The input is the only one of [N, C, T] or [N, T, C] numbers. It is such a signal if the first
// nodes that compute with it work over one axis: Conv, ConvTranspose, BatchNormalization, pools.
SignalAxes signal_axes(const GraphData& graph);

// Each Conv, ConvTranspose, BatchNormalization, pool, Pad, Concat or mean of a value of [N, C, T]
// gets one of [N, C, 1, T], and so do element-wise nodes behind them. Unsqueeze and Squeeze stand
// where other nodes read the values. A Slice that cuts the end of a convolution's results takes
// that many positions of its padding. `graph.values` has the shapes.
void lay_out_signals(GraphData& graph);

}  // namespace mantissa::onnx
