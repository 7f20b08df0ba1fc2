// Test examples and pictures as a trained network takes them.
#pragma once

#include <string>

#include "api/inference/inference_config.h"
#include "base/result.h"
#include "data/datasets/dataset.h"
#include "infer/frozen_network.h"

namespace mantissa {

// How examples are read for a network: the columns of its rows, or the size and channels of its
// pictures; and the label that counts nothing. An error if pictures cannot have them.
Result<DataOptions> network_options(const FrozenNetwork& network, const InferenceConfig& config);

// Loads the test examples of the data set that `config` names (by default the data set of the
// training), with the network's class numbers. If every class of the data has the name of a class
// of the network, names decide; else numbers do. Notes for the user are added to info.notes. An
// error: more classes than the network has.
Result<Dataset> load_test_data(const InferenceConfig& config, const FrozenNetwork& network);

}  // namespace mantissa
