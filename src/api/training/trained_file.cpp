#include "api/training/trained_file.h"

#include <string>
#include <utility>

#include "api/public_values.h"
#include "base/files/file_system.h"
#include "mantissa/mantissa.h"

namespace mantissa {

Outcome<TrainedParameters> TrainedParameters::read(const std::string& path) {
  auto file = read_trained(path);
  if (!file.ok()) return failure_of(file.error());
  return TrainedParameters(std::make_shared<const Data>(Data{std::move(*file)}));
}

Outcome<Network> TrainedParameters::network() const {
  const TrainedFile& file = data_->file;
  if (file.imported) return network_of_graph(file.imported->graph);
  auto found = network_of(file);
  if (!found.ok()) return failure_of(found.error());
  // Networks of runs and frozen networks are read with the means of their pixels.
  const bool is_run = !found->network;
  const NetworkOutcome described =
      describe_network({{"path", is_run ? file.path.parent_path().string() : file.path.string()}});
  if (described.error.empty()) return Network::from_json(described.json);
  if (is_run) return Failure{described.exit, described.error};
  return network_of_graph(std::move(*found->network));
}

}  // namespace mantissa
