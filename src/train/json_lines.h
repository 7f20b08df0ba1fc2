// A file of one JSON object per line, each with its "step": what a run writes as it goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.h"

namespace mantissa {

// The step of a line: a whole number, exact as a double. None where there is none such.
std::optional<int64_t> step_of(const nlohmann::json& line);

class JsonLines {
 public:
  // Opens `path` for appending, after cutting it back to the lines with step <= `last_step` (a line
  // that an interrupted write left incomplete, and all after it, go too).
  static Result<JsonLines> open(const std::filesystem::path& path, int64_t last_step);

  // The first and the last line that were kept; empty where there was none.
  const std::string& first() const { return first_; }
  const std::string& last() const { return last_; }

  // Appends a line, and hands it to the system before it returns.
  Status write(const nlohmann::ordered_json& line);

 private:
  JsonLines(std::filesystem::path path, std::ofstream file, std::string first, std::string last)
      : path_(std::move(path)),
        file_(std::move(file)),
        first_(std::move(first)),
        last_(std::move(last)) {}

  std::filesystem::path path_;
  std::ofstream file_;
  std::string first_, last_;
};

}  // namespace mantissa
