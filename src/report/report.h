// A report on one or more runs: one HTML file that needs nothing else.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "report/run_record.h"

namespace mantissa {

// As many as there are separate colours.
constexpr size_t kMostRuns = 6;

// Reads the folders; runs of the same name get longer ones. Errors: none or more than kMostRuns,
// and errors of read_run.
Result<std::vector<RunRecord>> read_runs(const std::vector<std::string>& folders);

// The HTML of the report. It says which parts are missing. Reads the runs' data sets for the
// pictures of the worst predictions, if they are there.
std::string report_html(const std::vector<RunRecord>& runs);

// Sections of the report, used by report_html; "" if there is nothing to show.
std::string tensors_section(const RunRecord& run);
std::string evaluation_section(const RunRecord& run);
std::string pipeline_section(const RunRecord& run);

}  // namespace mantissa
