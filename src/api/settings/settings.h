// Settings as text: configuration files, and the settings of the commands that do not train.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/system/cpu.h"
#include "mantissa/mantissa.h"
#include "measure/benchmark.h"
#include "run/settings/run_config.h"

namespace mantissa {

// The training configuration: the file named by "config" (if any), overridden by the settings.
Result<RunConfig> training_config(const Settings& settings);

// An error if --resume names a file that is gone although the run has its own copy.
Status check_resumed_files(const Settings& settings);

// An error for a setting that the command does not have.
Status check_known(const std::string& command, const Settings& settings);

// Settings of eval, predict and export.
struct InferenceConfig {
  std::string checkpoint;
  std::string from;    // export: an encoder, in place of a checkpoint
  std::string format;  // of the encoder
  std::string data;
  std::string input;  // one a line
  std::string csv;
  std::string raw;
  std::string out;
  std::string target = "ort";
  int64_t first_index = 0, last_index = 0;
  int64_t batch_size = 128;
  int64_t beam = 4;
  int threads = 1;
  Isa isa = Isa::kScalar;
};
Result<InferenceConfig> inference_config(const std::string& command, const Settings& settings);

// Settings of data.
struct DescribeConfig {
  std::string data;
  DataOptions options;
  std::string contact_sheet;
};
Result<DescribeConfig> describe_config(const Settings& settings);

// Settings of bench: the settings of training that affect a step, and its own.
struct BenchConfig {
  BenchmarkConfig benchmark;
  std::string out;
  std::string compare;
};
std::vector<SettingInfo> bench_infos();
Result<BenchConfig> bench_config(const Settings& settings);

}  // namespace mantissa
