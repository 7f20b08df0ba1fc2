#include "train/network.h"

#include "plan/network_format.h"

namespace mantissa {

Result<Graph> build_network(std::string_view model, const ModelOptions& options,
                            const Format& format) {
  MANTISSA_ASSIGN(const Graph graph, build_model(model, options));
  return in_format(graph, format);
}

}  // namespace mantissa
