// Compares and describes the folders of runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mantissa/export.h"
#include "mantissa/mantissa.h"

namespace mantissa {

struct Comparison {
  bool same = false;            // at all steps, as far as they were hashed
  int64_t tensors = 0;          // hashed per step
  int64_t steps_compared = 0;   // up to the first difference
  int64_t last_same_step = -1;  // -1: none
  int64_t differing_step = -1;  // the first; -1: none
  std::vector<std::string> differing_tensors;
  std::vector<std::string> notes;  // what could not be compared
  // Without a message. kFailed: the runs differ. kInvalidInput: no difference was found, but hashes
  // are missing, so it is not known whether the runs are the same.
  Failure problem = {Exit::kDone, ""};
};

// Compares the states of two runs (folders, or their hashes.jsonl) step by step. If their settings
// or data differ, the error names the difference.
MANTISSA_EXPORT Outcome<Comparison> verify(const std::string& run_a, const std::string& run_b);

struct WrittenReport {
  std::string file;                   // that was written
  std::vector<std::string> problems;  // missing or damaged parts of the runs
};

// Writes a report on 1 to 6 runs (their folders) as one HTML file that needs nothing else: "out",
// else report.html. With "tensorboard" also TensorBoard's event files, in a folder per run there.
MANTISSA_EXPORT Outcome<WrittenReport> report(const std::vector<std::string>& runs,
                                              const Settings& settings);

struct ParameterFile {
  std::string file;        // content of a safetensors file, for the setting "from" of train
  int64_t parameters = 0;  // in it
};

// The trained parameters of a run (its folder), a checkpoint or a network, whose names fit one of
// the patterns: * stands for any text, commas separate, "" takes all. docs/networks.md has the
// file's form.
MANTISSA_EXPORT Outcome<ParameterFile> trained_parameters(const std::string& path,
                                                          const std::string& patterns = "");

struct RunStatistics {
  std::string json;                   // docs/run-folder.md, "What statistics says"
  std::vector<std::string> problems;  // damaged parts of tensors.jsonl
};

// How the tensors of a run (its folder) use their bits, over the steps that were observed. "kind":
// value, gradient, parameter, parameter-gradient, or all (the default).
MANTISSA_EXPORT Outcome<RunStatistics> statistics(const std::string& run, const Settings& settings);

struct ExportedModel {
  std::string file;                // that was written
  int64_t nodes = 0;               // of the exported graph
  std::vector<std::string> notes;  // a line for each layer that needs the user's attention
};

// Writes the frozen network of a run (or a model.safetensors file, "checkpoint") as an ONNX file,
// "out" (docs/onnx.md). "target": "ort" or "portable"; or "tflite", for a TensorFlow Lite file
// (docs/tflite.md).
MANTISSA_EXPORT Outcome<ExportedModel> export_model(const Settings& settings);

struct PathDescription {
  std::string json;  // docs/run-folder.md, "What info says"
};

// Describes a run's folder, a checkpoint, a model.safetensors or any safetensors file.
// Settings: "shape" with sizes of an ONNX network's inputs, "NAME=1x3x224x224", one a line.
MANTISSA_EXPORT Outcome<PathDescription> describe_path(const std::string& path,
                                                       const Settings& settings = {});

}  // namespace mantissa
