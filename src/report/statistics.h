// How a run's tensors use their bits, from its tensors.jsonl, and advice that follows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "report/run_record.h"

namespace mantissa {

// The tensors of one kind ("value", "gradient", "parameter", "parameter gradient"; "": all) as JSON
// (docs/run-folder.md, "What statistics says"). An error if the run has observed nothing: it has
// taken too few steps, it computes in fp32, or the file is missing or damaged.
Result<nlohmann::ordered_json> tensor_statistics(const RunRecord& run, const std::string& kind);

}  // namespace mantissa
