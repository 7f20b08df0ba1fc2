// The inputs of recurrent layers, in integers and in fp32.
#pragma once

#include <cstddef>

namespace mantissa::ops {

// The inputs: the input's part of the gates; and perhaps how many positions of each sequence are no
// padding; and perhaps the state that sequences start with, h and the cell of an LSTM.
enum RecurrentInput : size_t { kGatesInput, kLengthsInput, kStartInput, kStartCellInput };

}  // namespace mantissa::ops
