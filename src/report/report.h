// A report on one or more runs: one HTML file that needs nothing else.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "report/run_record.h"

namespace mantissa {

// As many as have colours of their own.
constexpr size_t kMostRuns = 6;

// Reads the folders; runs of the same name get longer ones. Errors: none or more than kMostRuns,
// and those of read_run.
Result<std::vector<RunRecord>> read_runs(const std::vector<std::string>& folders);

// The HTML of the report. What is missing is left out and said. Reads the runs' data sets for the
// pictures of the worst predictions, where they are there.
std::string report_html(const std::vector<RunRecord>& runs);

// Sections of the report, used by report_html; "" where there is nothing to show.
std::string tensors_section(const RunRecord& run);
std::string evaluation_section(const RunRecord& run);
std::string pipeline_section(const RunRecord& run);

}  // namespace mantissa
