// Results as text for people and as JSON for programs. All functions return what to print.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/terminal.h"
#include "mantissa/mantissa.h"
#include "mantissa/onnx.h"
#include "mantissa/runs.h"

namespace mantissa::cli {

// A run's summary.json as lines: accuracy, time, speed, memory, weight state. `seconds`: how long
// this call took, if it trained. Missing entries are left out.
std::string training_report(const std::string& summary_json, std::optional<double> seconds,
                            const Terminal& terminal);

// The same in one line: "test accuracy 89.43 %, 12,345 examples/s, runs/a".
std::string training_line(const std::string& summary_json, const std::string& out);

// An entry of a summary as text, or "" if it has none.
std::string summary_entry(const std::string& summary_json, const std::string& name);

// Each layer's bits, and the relative error of its weights and of its input.
std::string quantisation_table(const std::vector<QuantisedLayerInfo>& layers,
                               const Terminal& terminal);

// The cost of each layer's few bits, the largest first, and the gain from keeping some layers at 8
// bits.
std::string sensitivity_table(const Sensitivity& sensitivity, const Terminal& terminal);
std::string sensitivity_json(const Sensitivity& sensitivity);

// Accuracy, loss, and with `tables` recall and precision of each class and the confusion matrix (if
// it is too wide, the most frequent confusions).
std::string evaluation_report(const Evaluation& evaluation, bool tables, const Terminal& terminal);

// A table: source, true class, the three most probable classes.
std::string prediction_table(const Predictions& predictions, const Terminal& terminal);
std::string prediction_json(const Predictions& predictions);

// The JSON of data as text: numbers, classes, notes. Then as one line.
std::string data_report(const std::string& json, const Terminal& terminal);
std::string data_line(const std::string& json);

// The JSON of bench as tables of at most 100 columns: peaks, instructions (in the program's order
// or by time), sums, the step. Then as one line, with the differences that weaken the comparison.
std::string bench_report(const std::string& json, bool by_time, const Terminal& terminal);
std::string bench_line(const std::string& json);
std::vector<std::string> bench_warnings(const std::string& json);

// Same or not, and where not: the first differing step and its tensors.
std::string verify_report(const Comparison& comparison, const Terminal& terminal);
std::string verify_json(const Comparison& comparison);

// The JSON of statistics as a table for each kind of tensor, then remarks.
std::string statistics_report(const std::string& statistics, const Terminal& terminal);
// The same in one line.
std::string statistics_line(const std::string& statistics);

// The JSON of describe_path as lines; with `with_tensors` a table of the tensors, too.
std::string description_report(const std::string& description, bool with_tensors,
                               const Terminal& terminal);

// The JSON of describe_path for an ONNX network: its layers as a table, and the unsupported nodes.
std::string onnx_layers(const std::string& description, const Terminal& terminal);
// Outputs of a network that was run, and where they are.
std::string onnx_run_report(const OnnxOutputs& ran, const std::string& file);

// Version, CPU, kernels, networks and formats.
std::string info_report(const Info& info, const Terminal& terminal);
std::string info_json(const Info& info);

}  // namespace mantissa::cli
