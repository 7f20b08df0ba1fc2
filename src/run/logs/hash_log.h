// hashes.jsonl: digests of the whole state at regular steps, chained, so that two runs can be
// compared step by step after they ended (docs/run-folder.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "run/logs/json_lines.h"
#include "runtime/state.h"

namespace mantissa {

class HashLog {
 public:
  // Cuts the file back to `step` and goes on with its chain. A file without lines begins with a
  // line for the present state; only that line names the run's identity and the tensors. The run
  // writes a line every `every` steps. An asynchronous pipeline is at rest every `drain_every`
  // steps (0: after each). It writes the line at the first rest at or after the due step.
  static Result<HashLog> open(const std::filesystem::path& path, const std::string& run_identity,
                              int64_t step, int64_t every, int64_t drain_every, const State& state);

  // Appends the line of the state after `step`.
  Status write(int64_t step, const State& state);

  // As of JsonLines.
  const std::string& gap() const { return lines_.gap(); }
  Status flush() { return lines_.flush(); }

 private:
  HashLog(JsonLines lines, std::string chain)
      : lines_(std::move(lines)), chain_(std::move(chain)) {}
  Status append(nlohmann::ordered_json line, const State& state);

  JsonLines lines_;
  std::string chain_;  // of the last line
};

// The SHA-256 that stands under "chain" in a line: of the chain of the line before ("" for the
// first) and the line without this entry.
std::string chain_hash(const std::string& previous, const nlohmann::ordered_json& line);

}  // namespace mantissa
