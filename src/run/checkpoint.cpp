#include "run/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <sstream>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "formats/arrays/safetensors.h"
#include "infer/state_file.h"
#include "numerics/rounding.h"
#include "ops/loss.h"

namespace mantissa {
namespace {

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kSuffix = ".safetensors";

// The whole numbers of CheckpointInfo, by their names in the file.
struct Counter {
  const char* name;
  int64_t CheckpointInfo::*field;
  bool may_lack = false;  // in files of before it was counted
};
constexpr Counter kCounters[] = {
    {"step", &CheckpointInfo::step},
    {"window_steps", &CheckpointInfo::window_steps},
    {"window_correct", &CheckpointInfo::window_correct},
    {"window_loss_q24", &CheckpointInfo::window_loss_q24},
    {"window_saturated", &CheckpointInfo::window_saturated},
    {"window_requantised", &CheckpointInfo::window_requantised},
    {"saturated", &CheckpointInfo::saturated},
    {"requantised", &CheckpointInfo::requantised},
    {"re_executions", &CheckpointInfo::re_executions},
    {"guard_violations", &CheckpointInfo::guard_violations},
    {"norm_channels_left_out", &CheckpointInfo::norm_channels_left_out, true},
    {"epoch_loss_q24", &CheckpointInfo::epoch_loss_q24},
    {"best_step", &CheckpointInfo::best_step},
    {"best_loss_q24", &CheckpointInfo::best_loss_q24},
    {"best_correct", &CheckpointInfo::best_correct},
    {"best_examples", &CheckpointInfo::best_examples, true},
    {"reductions", &CheckpointInfo::reductions},
    {"reduced_step", &CheckpointInfo::reduced_step},
};

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string entry(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? std::string() : found->second;
}

Result<SafetensorsFile> read_checkpoint(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(SafetensorsFile file, read_safetensors(path));
  if (entry(file, "kind") != "mantissa checkpoint 1") {
    return invalid_input(path.string() + ": is not a checkpoint of Mantissa");
  }
  return file;
}

// Such a file is valid: removing it gains nothing.
Status check_run(const std::filesystem::path& path, const SafetensorsFile& file,
                 const std::string& run_identity) {
  if (entry(file, "run_identity") == run_identity) return {};
  return invalid_input(path.string() +
                       ": was written by a run with other data, or with settings other than its "
                       "config.toml says");
}

constexpr const char* kOutputsEntry = "window_outputs";

// "3 1200 0 77": the sums of each output, one after the other.
std::string outputs_text(const std::vector<OutputSums>& outputs) {
  std::string text;
  for (const OutputSums& one : outputs) {
    text += (text.empty() ? "" : " ") + std::to_string(one.correct) + " " +
            std::to_string(one.loss_q24);
  }
  return text;
}

bool read_outputs(const std::string& text, std::vector<OutputSums>& outputs) {
  std::istringstream words(text);
  for (std::string first, second; words >> first;) {
    if (!(words >> second)) return false;
    const auto correct = number(first), loss_q24 = number(second);
    if (!correct || !loss_q24) return false;
    outputs.push_back({*correct, *loss_q24});
  }
  return outputs.size() <= size_t{kMostLosses};
}

Result<CheckpointInfo> restore(const std::filesystem::path& path, const SafetensorsFile& file,
                               State& state) {
  CheckpointInfo info;
  info.run_identity = entry(file, "run_identity");
  for (const Counter& counter : kCounters) {
    if (counter.may_lack && !file.metadata.contains(counter.name)) continue;
    const auto value = number(entry(file, counter.name));
    if (!value) return invalid_input(path.string() + ": has no valid '" + counter.name + "'");
    info.*counter.field = *value;
  }
  if (!read_outputs(entry(file, kOutputsEntry), info.window_outputs)) {
    return invalid_input(path.string() + ": has no valid '" + kOutputsEntry + "'");
  }
  MANTISSA_RETURN_IF_ERROR(read_state(path, file, state));
  return info;
}

// Counts a step's losses and correct examples. Returns their sum, in units of 2^-24.
int64_t add_outputs(const StepResult& result, std::vector<OutputSums>& outputs) {
  const auto count = static_cast<size_t>(std::ranges::count_if(
      result.loss_units, [](double unit) { return unit > 0; }));
  outputs.resize(count);
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const LossTotals& loss = result.losses[i];
    outputs[i].correct += loss.correct;
    outputs[i].loss_q24 = accumulate(outputs[i].loss_q24, loss.loss_q24);
    sum = accumulate(sum, ops::loss_in_q24(result.loss_units[i], loss.loss_q24));
  }
  return sum;
}

}  // namespace

void add_step(const StepResult& result, CheckpointInfo& info) {
  ++info.step;
  ++info.window_steps;
  info.window_correct += result.correct;
  const bool has_several = result.loss_units[1] > 0;
  const int64_t loss_q24 =
      has_several ? add_outputs(result, info.window_outputs) : result.loss_q24;
  info.window_loss_q24 = accumulate(info.window_loss_q24, loss_q24);
  info.epoch_loss_q24 = accumulate(info.epoch_loss_q24, loss_q24);
  info.window_saturated += result.saturated;
  info.window_requantised += result.requantised;
  info.saturated += result.saturated;
  info.requantised += result.requantised;
  info.re_executions += result.re_executions;
  info.guard_violations += result.guard_violations;
  info.norm_channels_left_out += result.norm_channels_left_out;
}

std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, digits.size() < 8 ? 8 - digits.size() : 0, '0');
  return folder / (std::string(kPrefix) + digits + std::string(kSuffix));
}

std::optional<int64_t> checkpoint_step(const std::string& file_name) {
  if (!file_name.starts_with(kPrefix) || !file_name.ends_with(kSuffix)) return std::nullopt;
  const auto step = number(std::string_view(file_name).substr(
      kPrefix.size(), file_name.size() - kPrefix.size() - kSuffix.size()));
  return step && checkpoint_path({}, *step) == file_name ? step : std::nullopt;
}

Result<std::vector<int64_t>> list_checkpoints(const std::filesystem::path& folder) {
  MANTISSA_ASSIGN(const std::vector<std::string> names, list_names(folder));
  std::vector<int64_t> steps;
  for (const std::string& name : names) {
    if (const auto step = checkpoint_step(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

Status write_checkpoint(const std::filesystem::path& path, const CheckpointInfo& info,
                        const State& state) {
  std::map<std::string, std::string> metadata = {{"kind", "mantissa checkpoint 1"},
                                                 {"run_identity", info.run_identity}};
  for (const Counter& counter : kCounters) {
    metadata[counter.name] = std::to_string(info.*counter.field);
  }
  if (!info.window_outputs.empty()) metadata[kOutputsEntry] = outputs_text(info.window_outputs);
  // So that the file alone tells the unit of its accumulators.
  const StateLayout& layout = state.layout();
  const bool waits =
      std::any_of(layout.parameters.begin(), layout.parameters.end(),
                  [](const ParameterState& parameter) { return parameter.accumulator >= 0; });
  if (waits) metadata["lazy_shift"] = std::to_string(layout.lazy_shift);
  return write_state(path, metadata, state);
}

Status rotate_checkpoints(const std::filesystem::path& folder) {
  constexpr size_t kKept = 2;
  MANTISSA_ASSIGN(const std::vector<int64_t> steps, list_checkpoints(folder));
  for (size_t i = 0; i + kKept < steps.size(); ++i) {
    MANTISSA_RETURN_IF_ERROR(remove_file(checkpoint_path(folder, steps[i])));
  }
  return {};
}

Result<CheckpointInfo> load_checkpoint(const std::filesystem::path& path,
                                       const std::string& run_identity, State& state) {
  MANTISSA_ASSIGN(const SafetensorsFile file, read_checkpoint(path));
  MANTISSA_RETURN_IF_ERROR(check_run(path, file, run_identity));
  return restore(path, file, state);
}

Result<std::optional<CheckpointInfo>> load_newest_checkpoint(const std::filesystem::path& folder,
                                                             const std::string& run_identity,
                                                             State& state) {
  MANTISSA_ASSIGN(const std::vector<int64_t> saved, list_checkpoints(folder));
  if (saved.empty()) return std::optional<CheckpointInfo>();
  const std::filesystem::path newest = checkpoint_path(folder, saved.back());
  Result<SafetensorsFile> file = read_checkpoint(newest);
  if (file.ok()) MANTISSA_RETURN_IF_ERROR(check_run(newest, *file, run_identity));
  auto loaded = file.ok() ? restore(newest, *file, state) : Result<CheckpointInfo>(file.error());
  if (loaded.ok()) return std::optional(std::move(*loaded));
  // A file that cannot be read now may be good.
  const bool damaged =
      loaded.error().code == ErrorCode::kInvalidInput && InputFile::open(newest).ok();
  if (damaged && saved.size() > 1) {
    loaded.error().message += "; without that file, --resume goes on from step " +
                              std::to_string(saved[saved.size() - 2]);
  }
  return std::move(loaded.error());
}

}  // namespace mantissa
