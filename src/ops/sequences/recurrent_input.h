// The inputs of recurrent layers, in integers and in fp32.
#pragma once

#include <cstddef>

namespace mantissa::ops {

// The inputs: the input's part of the gates; optionally the number of positions of each sequence
// without padding; optionally the initial state of sequences, h and the cell of an LSTM.
enum RecurrentInput : size_t { kGatesInput, kLengthsInput, kStartInput, kStartCellInput };

}  // namespace mantissa::ops
