// The settings of networks that read a column of texts of a table.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "run/settings/run_config.h"

namespace mantissa {

// Whether the network is an encoder of texts, or gives them classes (network.h).
bool reads_texts(const RunConfig& config);

// Takes the tokenizer of the start, and brings the network to the length of --sequence. Then
// --sequence is no setting of the run any more: as such it belongs to language models. The
// optimizer is Adam and batches have 16 texts unless the settings say otherwise. Errors:
// --text-column for another network, no tokenizer, more tokens than the network has positions.
Status take_text(const std::map<std::string, std::string>& settings, RunConfig& config);

}  // namespace mantissa
