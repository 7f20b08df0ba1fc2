// The network of a run: a built-in one, or one that was read from a file.
#pragma once

#include "base/result.h"
#include "data/datasets/dataset.h"
#include "graph/graph.h"
#include "models/models.h"
#include "run/settings/run_config.h"

namespace mantissa {

// An error if the network takes pictures of another size than the data have, or tables of another
// number of columns.
Status check_examples(const Graph& network, const DatasetInfo& data);

// An error for a setting that these data have no use for, such as a table's target for pictures.
Status check_settings_of_data(const RunConfig& config, const DatasetInfo& data);

// The examples and classes of a run's network, on these data. An error if the network of a file is
// for others.
Result<ModelOptions> model_options(const RunConfig& config, const DatasetInfo& data);

// The network of a run, before its format changes it (plan/passes/network_format.h). Errors of
// build_model.
Result<Graph> build_network(const RunConfig& config, const ModelOptions& options);

// Marks the parameters of such a network, in its format, that the run does not train: those of
// --freeze, and with --lora the base's. A layer that the start lacks, such as a new classifier, is
// trained beside adapters.
Status choose_trained(const RunConfig& config, Graph& graph);

// Gives the network of --from the classes of the data, if the settings name no network and it has
// one output: its classifier gets as many outputs, or an encoder of texts gets a classifier. An ONNX model learns
// numbers if the data have them.
Status adapt_classes(const DatasetInfo& data, RunConfig& config);

// The default learning rate. For numbers it is smaller: their errors have no bound, while the
// errors of classes do.
void adapt_learning_rate(const DatasetInfo& data, RunConfig& config);

}  // namespace mantissa
