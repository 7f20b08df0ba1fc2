// A file of one JSON object per line, each with its "step": the log of a run in progress.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/files/output_file.h"
#include "base/result.h"

namespace mantissa {

// The step of a line: a whole number, exact as a double. Nothing if it has no such step.
std::optional<int64_t> step_of(const nlohmann::json& line);

class JsonLines {
 public:
  // Opens `path` for appending, after cutting it back to the lines with step <= `last_step`. A line
  // that an interrupted write left incomplete is cut too, with all lines after it. A run that
  // reached `last_step` must have written a line since the last multiple of `every` steps: see
  // gap(). Errors: the file cannot be read, or lines to keep stand after a line that is damaged or
  // has a later step; nothing is cut then.
  static Result<JsonLines> open(const std::filesystem::path& path, int64_t last_step,
                                int64_t every);

  // The first and the last line that were kept; empty if there was none.
  const std::string& first() const { return first_; }
  const std::string& last() const { return last_; }

  // A message about lines that are missing before `last_step`; empty if none are.
  const std::string& gap() const { return gap_; }

  // Appends a line, and hands it to the system before it returns.
  Status write(const nlohmann::ordered_json& line);

  // The lines so far survive a loss of power when it returns.
  Status flush() { return file_.flush(); }

 private:
  explicit JsonLines(OutputFile file) : file_(std::move(file)) {}

  OutputFile file_;
  std::string first_, last_, gap_;
};

}  // namespace mantissa
