// Dynamic fixed point after pre-training in floating point: the comparative example of DynamicFixed
// (its figures 7 and 8; METHODS section 2), for comparison with pre-training in fixed point with
// re-execution.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "data/batches/batch.h"
#include "infer/programs.h"
#include "run/plan/run_plan.h"
#include "run/settings/run_config.h"
#include "runtime/state.h"

namespace mantissa {

// Trains the plan's network for Format::float_steps() steps in fp32, on `batches`, the same that
// training itself begins with, and with its learning rates, from the initial weights of the seed
// or, if there are any, the `trained` ones. `state`, initialised, takes from it the weights,
// batch norm's running statistics, and the exponents that follow from the last step's values and
// gradients with r_max; the optimiser starts anew. The arena is the plan's. `report` gets the
// number of finished steps, and returns false to interrupt. That is an error: `state` must not be
// used then. As fp32 does, it depends in its last bits on the number of threads and the machine.
Status pretrain(const RunConfig& config, const RunPlan& plan, BatchSource& batches,
                const Machine& machine, const std::function<bool(int64_t done)>& report,
                State& state, const TrainedFile* trained = nullptr);

}  // namespace mantissa
