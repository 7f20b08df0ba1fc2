#include "start/prepared_start.h"

#include <filesystem>

#include "base/files/file_system.h"
#include "models/json/network_json.h"
#include "run/settings/run_folder.h"
#include "run/settings/run_network.h"
#include "run/settings/starting_point.h"

namespace mantissa {

Status begin_prepared(RunConfig& config, const std::function<Status()>& write) {
  const std::filesystem::path folder = config.out;
  MANTISSA_ASSIGN(const bool has_begun, is_there(folder / kConfigFile));
  if (!config.resume || !has_begun) {
    MANTISSA_ASSIGN(const bool was_there, is_there(folder));
    const Status written = write();
    if (!written.ok()) {
      if (!was_there) remove_traces(folder);
      return written;
    }
    config.resume = false;
    config.overwrite = true;  // of the files that were just written
  }
  MANTISSA_ASSIGN(const TrainedFile trained, read_trained(folder / kStartFile, {}, Reading::kByParameter));
  MANTISSA_ASSIGN(config.network, read_network(folder / kNetworkFile));
  MANTISSA_ASSIGN(config.start, starting_point(trained));
  config.model = config.network->name;
  config.network_file = (folder / kNetworkFile).string();
  config.adapts_classes = false;
  config.notes.clear();
  return {};
}

}  // namespace mantissa
