#include "train/early_stop.h"

#include <algorithm>

#include "numerics/rounding.h"
#include "run/settings/run_folder.h"

namespace mantissa {

std::filesystem::path best_path(const std::filesystem::path& folder) { return folder / kBestFile; }

Status load_best(const std::filesystem::path& folder, const CheckpointInfo& info, State& state) {
  const std::filesystem::path path = best_path(folder);
  MANTISSA_ASSIGN(const CheckpointInfo best, load_checkpoint(path, info.run_identity, state));
  if (best.step == info.best_step) return {};
  return invalid_input(path.string() + ": is of step " + std::to_string(best.step) +
                       "; the best was step " + std::to_string(info.best_step));
}

int64_t whole_epoch_loss(int64_t loss_q24, int64_t steps, int64_t steps_per_epoch) {
  return divide_rne(static_cast<__int128>(loss_q24) * steps_per_epoch, steps);
}

bool note_epoch(const RunConfig& config, int64_t steps_per_epoch, int64_t loss_q24,
                CheckpointInfo& info) {
  if (info.best_step == 0 || loss_q24 < info.best_loss_q24) {
    info.best_step = info.step;
    info.best_loss_q24 = loss_q24;
    return true;
  }
  const int64_t since = info.step - std::max(info.best_step, info.reduced_step);
  if (config.schedule == ScheduleKind::kPlateau &&
      since >= config.plateau_patience * steps_per_epoch) {
    ++info.reductions;
    info.reduced_step = info.step;
  }
  return false;
}

bool stops_early(const RunConfig& config, int64_t steps_per_epoch, const CheckpointInfo& info) {
  return config.early_stop > 0 && info.best_step > 0 &&
         info.step - info.best_step >= config.early_stop * steps_per_epoch;
}

}  // namespace mantissa
