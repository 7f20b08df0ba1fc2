// metrics.jsonl as TensorBoard events.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/tensorboard.h"
#include "run/logs/metrics.h"

namespace mantissa {

// The lines of a metrics.jsonl up to the first damaged one; none if the file is not there.
Result<std::vector<MetricsLine>> read_metrics(const std::filesystem::path& path);

// The event file of the run in the folder `run`. TensorBoard takes all files in one folder for one
// run, so each run has its own folder below `tensorboard`. Its name is `name`, as far as a file can
// have that name.
std::filesystem::path event_file(const std::filesystem::path& tensorboard, std::string name,
                                 const std::filesystem::path& run);

// An error if event files of other runs lie in the folder of this one.
Status check_event_file(const std::filesystem::path& file);

// Writes all lines of `metrics_file` (none if it is not there) to an event file. Makes its folder
// if necessary, and replaces an existing file, so that it always matches metrics.jsonl. The last
// line gets the time `end` (seconds since 1970), earlier lines get times by their speed.
Result<EventFile> write_events(const std::filesystem::path& metrics_file,
                               const std::filesystem::path& file, int64_t batch_size, double end);

// "train/loss", "train/accuracy", "train/learning_rate", "train/examples_per_second",
// "train/saturation_rate".
Scalars scalars_of(const MetricsLine& line);

// Seconds since 1970, now.
double wall_time_now();

}  // namespace mantissa
