// The contents of a model of the public interface.
#pragma once

#include "base/system/cpu.h"
#include "infer/frozen_network.h"
#include "mantissa/training.h"

namespace mantissa {

struct Model::Data {
  FrozenNetwork network;
  int threads = 1;
  Isa isa = best_isa();
};

}  // namespace mantissa
