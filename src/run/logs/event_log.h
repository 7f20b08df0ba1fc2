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

// The lines of a metrics.jsonl up to the first that is damaged; none of a file that is not there.
Result<std::vector<MetricsLine>> read_metrics(const std::filesystem::path& path);

// The event file of the run in the folder `run`. TensorBoard takes all files in one folder for one
// run: each has a folder below `tensorboard`, called `name` as far as a file can be.
std::filesystem::path event_file(const std::filesystem::path& tensorboard, std::string name,
                                 const std::filesystem::path& run);

// An error if event files of others lie where this one is to be.
Status check_event_file(const std::filesystem::path& file);

// Writes all lines of `metrics_file` (none if it is not there) to an event file, whose folder is
// made if need be, replacing it if it is there: it always says what metrics.jsonl says. The last
// line is given the time `end` (seconds since 1970), those before it times by their speed.
Result<EventFile> write_events(const std::filesystem::path& metrics_file,
                               const std::filesystem::path& file, int64_t batch_size, double end);

// "train/loss", "train/accuracy", "train/learning_rate", "train/examples_per_second",
// "train/saturation_rate".
Scalars scalars_of(const MetricsLine& line);

// Seconds since 1970, now.
double wall_time_now();

}  // namespace mantissa
