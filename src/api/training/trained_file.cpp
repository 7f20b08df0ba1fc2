#include "api/training/trained_file.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/public_values.h"
#include "base/files/file_system.h"
#include "mantissa/mantissa.h"

namespace mantissa {

Outcome<TrainedParameters> TrainedParameters::read(const std::string& path) {
  MANTISSA_ASSIGN(auto file, read_trained(path));
  return TrainedParameters(std::make_shared<const Data>(Data{std::move(file)}));
}

Outcome<Network> TrainedParameters::network() const {
  const TrainedFile& file = data_->file;
  if (file.imported) return network_of_graph(file.imported->graph);
  MANTISSA_ASSIGN(auto found, network_of(file));
  // Networks of runs and frozen networks are read with the means of their pixels.
  const bool is_run = !found.network;
  const Outcome<NetworkDescription> described =
      describe_network({{"path", is_run ? file.path.parent_path().string() : file.path.string()}});
  if (described.ok()) return Network::from_json(described->json);
  if (is_run) return described.failure();
  return network_of_graph(std::move(*found.network));
}

Outcome<ParameterNumbers> TrainedParameters::parameter(const std::string& name) const {
  const auto& all = data_->file.parameters;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const NamedParameter& one) { return one.name == name; });
  if (found == all.end()) {
    return invalid_input(data_->file.source + " has no parameter '" + name + "'");
  }
  NamedParameter parameter = *found;
  if (parameter.type == DataType::kInt32 || parameter.type == DataType::kInt64) {
    return invalid_input("'" + name + "' in " + data_->file.source +
                         " is part of a frozen network; a checkpoint has the trained numbers");
  }
  parameter.accumulator = {};
  parameter.lazy_shift = 0;
  MANTISSA_RETURN_IF_ERROR(check_parameter(parameter));
  return ParameterNumbers{.dims = dims_of(parameter.shape),
                          .numbers = real_numbers(parameter),
                          .mantissas = {},
                          .exponents = {}};
}

}  // namespace mantissa
