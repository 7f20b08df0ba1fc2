// Measuring a machine for its profile (plan/retention/machine_profile.h).
#pragma once

#include "base/result.h"
#include "base/system/cpu.h"
#include "plan/retention/machine_profile.h"
#include "run/progress.h"

namespace mantissa {

// Trains small networks for a few steps that compute much again, and copies bytes within each cache
// and memory: some seconds. The observer sees each step; if it returns false the result is an error
// (kInterrupted).
Result<MachineProfile> measure_profile(int threads, Isa isa, const TrainObserver& observer);

}  // namespace mantissa
