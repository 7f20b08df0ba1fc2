// Settings by their topics (topics/): each function takes its part of the settings into a run's
// configuration.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "run/settings/run_config.h"

namespace mantissa {

// Takes the division into stages and replicas from settings, or from the nodes of the network's
// file, and chooses the rest of it. Errors: settings that do not go together.
Status resolve_pipeline(RunConfig& config);

// Reads the trained network that --teacher names: a file, or the folder of a run.
Status take_teacher(const std::map<std::string, std::string>& settings, RunConfig& config);

// Reads the network if the settings name a file. Errors: settings of built-in networks.
Status take_network(const std::map<std::string, std::string>& settings, RunConfig& config);

// Writes the factors of the losses into the network.
Status take_loss_weights(RunConfig& config);

// A network of positions or of pictures with many channels says its sizes itself; an imported one
// got open sizes from these settings. Repeated, they must be the same.
Status take_sizes_of_numbers(const std::map<std::string, std::string>& settings, RunConfig& config);

// Language models read a text, in sequences; their optimizer is Adam unless another is named.
// Errors: settings of texts for another network, another length, vocabulary or loss than the
// network has.
Status take_language(const std::map<std::string, std::string>& settings, RunConfig& config);

// Whether the network is an encoder of texts in a column of a table, or gives them classes
// (network.h).
bool reads_texts(const RunConfig& config);

// Takes the tokenizer of the start, and brings the network to the length of --sequence. Then
// --sequence is no setting of the run any more: as such it belongs to language models. The
// optimizer is Adam and batches have 16 texts unless the settings say otherwise. Errors:
// --text-column for another network, no tokenizer, more tokens than the network has positions.
Status take_text(const std::map<std::string, std::string>& settings, RunConfig& config);

}  // namespace mantissa
