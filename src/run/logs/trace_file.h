// Traces of pipelines as files that Perfetto and Chrome show: JSON of the Trace Event Format, a
// thread for each stage, a complete event ("X") for each piece of work. Times are microseconds.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "pipeline/trace.h"

namespace mantissa {

std::string trace_json(const pipeline::Trace& trace);

// The trace of a file that trace_json wrote. Errors name the file.
Result<pipeline::Trace> read_trace(const std::filesystem::path& path);

}  // namespace mantissa
