// tensors.jsonl: exponents, clipping and use of bits of every tensor, at the steps of the metrics
// (docs/run-folder.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"
#include "graph/graph.h"
#include "plan/programs/program.h"
#include "run/logs/json_lines.h"
#include "runtime/observation.h"

namespace mantissa {

// A tensor that an instruction of a program writes.
struct ObservedTensor {
  std::string name;
  const char* kind = "";   // "value", "gradient", "parameter", "parameter gradient"
  std::string written_by;  // "conv1 (convolution)"
  int bits = 0;            // of its mantissas, without the sign
};
ObservedTensor observed_tensor(const Graph& graph, const Program& program,
                               const TensorObservation& seen);

// The mean length of mantissas, to a thousandth of a bit.
double mean_bits(const BitLengths& bits);

class TensorLog {
 public:
  // Cuts the file back to `last_step`; the run writes a line every `every` steps. A file that does
  // not begin with the line that names this program's tensors is begun anew. With `bit_counts`
  // lines have the histograms of bit lengths.
  static Result<TensorLog> open(const std::filesystem::path& path, const Graph& graph,
                                const Program& program, int64_t last_step, int64_t every,
                                bool bit_counts);

  // Appends the line of `step`; tensors as Observations of the program has them.
  Status write(int64_t step, std::span<const TensorObservation> tensors);

  // As of JsonLines; also that the file was begun anew.
  const std::string& gap() const { return gap_; }
  Status flush() { return lines_.flush(); }

 private:
  TensorLog(JsonLines lines, std::string gap, bool bit_counts)
      : lines_(std::move(lines)), gap_(std::move(gap)), bit_counts_(bit_counts) {}
  JsonLines lines_;
  std::string gap_;
  bool bit_counts_;
};

}  // namespace mantissa
