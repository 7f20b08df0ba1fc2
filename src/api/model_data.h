// What a model of the public interface has.
#pragma once

#include "base/cpu.h"
#include "mantissa/training.h"
#include "train/frozen_network.h"

namespace mantissa {

struct Model::Data {
  FrozenNetwork network;
  int threads = 1;
  Isa isa = best_isa();
};

}  // namespace mantissa
