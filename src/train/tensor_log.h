// tensors.jsonl: exponents, clipping and use of bits of every tensor, at the steps of the metrics
// (docs/run-folder.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "base/result.h"
#include "graph/graph.h"
#include "plan/program.h"
#include "runtime/observation.h"
#include "train/json_lines.h"

namespace mantissa {

class TensorLog {
 public:
  // Cuts the file back to `last_step`. A file that does not begin with the line that names this
  // program's tensors is begun anew.
  static Result<TensorLog> open(const std::filesystem::path& path, const Graph& graph,
                                const Program& program, int64_t last_step);

  // Appends the line of `step`; tensors as Observations of the program has them.
  Status write(int64_t step, std::span<const TensorObservation> tensors);

 private:
  explicit TensorLog(JsonLines lines) : lines_(std::move(lines)) {}
  JsonLines lines_;
};

}  // namespace mantissa
