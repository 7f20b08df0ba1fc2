// The network of a run: a built-in one, or one that was read from a file.
#pragma once

#include <vector>

#include "base/result.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "models/models.h"
#include "train/run_config.h"

namespace mantissa {

// The input of this name, or null.
const Value* input_named(const Graph& network, const std::string& name);

// The examples and classes of a network that `train` trains: it has the inputs "pixels" or
// "numbers", or "tokens", "lengths" and perhaps "segments", and "labels" or "targets", one result,
// and one loss between that and these. Else an error.
Result<ModelOptions> example_options(const Graph& network);

// Whether it tells two classes apart by the sigmoid of one logit.
bool has_one_logit(const Graph& network);

// Whether a network gives a vector for each token of a text (models/bert.h), and has no loss yet;
// and whether it gives a text a class.
bool is_text_encoder(const Graph& network);
bool is_text_classifier(const Graph& network);

// An error if the network takes pictures of another size than the data have, or tables of another
// number of columns.
Status check_examples(const Graph& network, const DatasetInfo& data);

// The examples and classes of a run's network, on these data. An error if those of a file are for
// others.
Result<ModelOptions> model_options(const RunConfig& config, const DatasetInfo& data);

// The network of a run, before its format changes it (plan/network_format.h). Errors of
// build_model.
Result<Graph> build_network(const RunConfig& config, const ModelOptions& options);

// Gives the network of --from the classes of the data, where the settings name no network: its
// classifier as many outputs, or an encoder of texts a classifier.
Status adapt_classes(const DatasetInfo& data, RunConfig& config);

// The learning rate that nobody chose: errors of numbers have no bounds as those of classes have,
// so that it is smaller for them.
void adapt_learning_rate(const DatasetInfo& data, RunConfig& config);

// Channel means are an attribute of the node that reads the pixels. A file may leave them out: then
// they are those of the training pictures. Means with a fraction are the network's own.
void fill_means(const std::vector<int>& means, Graph& network);
void leave_out_means(Graph& network);

}  // namespace mantissa
