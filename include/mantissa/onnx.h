// Networks in ONNX files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mantissa/export.h"
#include "mantissa/mantissa.h"

namespace mantissa {

// One array of an NPZ file.
struct ArrayInfo {
  std::string name;
  std::string type;  // NumPy's name of it
  std::vector<int64_t> shape;
};

struct OnnxOutputs {
  std::vector<ArrayInfo> outputs;
  double seconds = 0;  // without reading and writing files
};

// Runs a network in float: "inputs" is an NPZ file with an array for each input, "out" the one to
// write with an array for each output, "threads" as everywhere. Errors: inputs that are missing,
// too many or of another shape or type; all nodes that are not supported, before anything runs.
MANTISSA_EXPORT Outcome<OnnxOutputs> run_onnx(const std::string& path, const Settings& settings);

}  // namespace mantissa
