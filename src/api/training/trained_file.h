// Trained parameters of a file, in the public interface.
#pragma once

#include "mantissa/training.h"
#include "run/settings/starting_point.h"

namespace mantissa {

struct TrainedParameters::Data {
  TrainedFile file;
};

}  // namespace mantissa
