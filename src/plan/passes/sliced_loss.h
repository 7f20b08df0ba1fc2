// A loss whose logits are computed in slices of rows (ops/losses/slices/sliced_loss.h): the
// networks that have one, and the instruction.
#pragma once

#include <optional>

#include "plan/passes/resolved_values.h"
#include "plan/programs/program.h"

namespace mantissa {

class ProgramWriter;

// The nodes that one instruction computes.
struct SlicedLoss {
  int layer = -1, loss = -1;
};

// The nodes of the program's loss, if its logits may come in slices: one softmax cross-entropy of a
// linear layer that is not trained; nothing else reads the logits; arithmetic is in integers; in
// training, nothing counts what is written, and no gradient is rounded twice.
std::optional<SlicedLoss> sliced_loss(const Graph& graph, const ResolvedValues& values,
                                      const ProgramOptions& options);

// The options with slices of logits if they pay: 16 MiB at most at once, of more than twice as
// much.
ProgramOptions with_slices(const Graph& graph, ProgramOptions options);
// The options of inference whose results nobody reads: its loss is the result.
ProgramOptions with_sliced_loss_alone(const Graph& graph, ProgramOptions options);
// The options of calibration, whose results nobody reads: it ends before the layer whose logits
// would come in slices, unless exponents are calibrated.
ProgramOptions without_sliced_logits(const Graph& graph, ProgramOptions options);

// Writes the instruction of the layer and the loss.
void write_sliced_loss(ProgramWriter& writer, const SlicedLoss& sliced);

}  // namespace mantissa
