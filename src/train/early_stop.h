// The decisions at the end of an epoch: whether it was the best so far, whether the learning rate
// falls, whether training stops.
#pragma once

#include <cstdint>
#include <filesystem>

#include "run/checkpoint.h"
#include "run/settings/run_config.h"

namespace mantissa {

// The file of the best epoch's weights, as long as a run may stop early.
std::filesystem::path best_path(const std::filesystem::path& folder);

// Reads the weights of the best epoch back into the state. An error that names the file if it is
// damaged or not of the epoch that `info` says was the best.
Status load_best(const std::filesystem::path& folder, const CheckpointInfo& info, State& state);

// The training loss of a whole epoch, extrapolated from an epoch in which only this many steps were
// taken.
int64_t whole_epoch_loss(int64_t loss_q24, int64_t steps, int64_t steps_per_epoch);

// Notes the loss (a sum over always as many examples, Q24) of the epoch that ends with info.step
// and that has steps_per_epoch steps. Under the plateau schedule the learning rate falls once more
// when `plateau_patience` epochs in a row, since the best or since it last fell, were no better.
// Returns whether no epoch before had a loss as low.
bool note_epoch(const RunConfig& config, int64_t steps_per_epoch, int64_t loss_q24,
                CheckpointInfo& info);

// Whether the run may end before its last step: `early_stop` epochs in a row were no better than
// the best one.
bool stops_early(const RunConfig& config, int64_t steps_per_epoch, const CheckpointInfo& info);

}  // namespace mantissa
