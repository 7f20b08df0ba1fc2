// The settings that name networks in files, and those that such a network says itself.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "run/settings/run_config.h"

namespace mantissa {

// Reads the trained network that --teacher names: a file, or the folder of a run.
Status take_teacher(const std::map<std::string, std::string>& settings, RunConfig& config);

// Reads the network if the settings name a file. Errors: settings of built-in networks.
Status take_network(const std::map<std::string, std::string>& settings, RunConfig& config);

// Writes the factors of the losses into the network.
Status take_loss_weights(RunConfig& config);

// A network of positions or of pictures with many channels says its sizes itself; an imported one
// got open sizes from these settings. Repeated, they must be the same.
Status take_sizes_of_numbers(const std::map<std::string, std::string>& settings, RunConfig& config);

}  // namespace mantissa
