// The examples that a network takes: its inputs, its result and its loss.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "data/batches/batch.h"
#include "data/datasets/dataset.h"
#include "graph/graph.h"
#include "models/models.h"

namespace mantissa {

// The input of this name, or null.
const Value* input_named(const Graph& network, const std::string& name);

// The shape of an example's labels if the network gives a class to each pixel, [H, W], or position,
// [T]; rank 0: it does not.
Shape label_shape_of_places(const Graph& network);

// The loss if the network's only one is of labels in an order, without places (ctc_loss); or null.
const Node* loss_of_sequences(const Graph& network);

// The names, types and shapes of its inputs.
std::vector<TensorSpec> input_specs(const Graph& network);

// The examples and classes of a network that `train` trains: it has the inputs "pixels" or
// "numbers", or "tokens", "lengths" and perhaps "segments", or other inputs that arrays fill
// (named_inputs.h), and "labels" or "targets", one result, and one loss between that and these; or
// several results, each with a loss and with labels or targets of any name. The one loss may be of
// labels in an order, and read lengths, too. Else an error. Sizes are 0 of networks that only arrays
// by name fit.
Result<ModelOptions> example_options(const Graph& network);

// Whether it has several results, each with a loss.
bool has_several_outputs(const Graph& network);

// Whether it tells two classes apart by the sigmoid of one logit.
bool has_one_logit(const Graph& network);

// Whether the network reads tokens.
bool reads_tokens(const Graph& network);

// Whether a network gives a vector for each token of a text (models/bert.h), and has no loss yet;
// and whether it gives a text a class.
bool is_text_encoder(const Graph& network);
bool is_text_classifier(const Graph& network);

// Channel means are an attribute of the node that reads the pixels. If a file leaves them out, they
// are computed from the training pictures. Means with a fraction belong to the network.
void fill_means(const std::vector<int>& means, Graph& network);
// The same by the names of the inputs.
void fill_means(const ChannelMeans& means, Graph& network);
void leave_out_means(Graph& network);

}  // namespace mantissa
