// metrics.jsonl as TensorBoard events.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "formats/tensorboard.h"
#include "train/metrics.h"

namespace mantissa {

// Writes all lines of `metrics_file` (none if it is not there) to an event file in `folder`, which
// is made if need be, replacing the file of the same run: it always says what metrics.jsonl says.
// The last line is given the time `end` (seconds since 1970), those before it times by their speed.
Result<EventFile> write_events(const std::filesystem::path& metrics_file,
                               const std::filesystem::path& folder, const std::string& run_identity,
                               int64_t batch_size, double end);

// "train/loss", "train/accuracy", "train/learning_rate", "train/examples_per_second",
// "train/saturation_rate".
Scalars scalars_of(const MetricsLine& line);

// Seconds since 1970, now.
double wall_time_now();

}  // namespace mantissa
