// The built-in networks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "kernels/softmax/softmax.h"
#include "ops/loss.h"

namespace mantissa {

constexpr int64_t kMostClasses = 4096;  // of pictures and rows: results have tables of all pairs
constexpr int64_t kMostTokens = int64_t{1} << 18;  // of a vocabulary

// The examples, classes and choices that a network is built for.
struct ModelOptions {
  int64_t height = 28, width = 28, channels = 1;  // of pictures
  int64_t features = 0;                           // of a table's rows; 0: these are pictures
  int64_t classes = 10;                           // or numbers to predict
  bool one_logit = false;                         // for two classes; the other has the logit 0
  bool has_labels = false;                        // classes are labels, each 0 or 1 of an example
  double width_multiplier = 1;                    // multiplies channels, at least 1 each
  std::vector<int> channel_means = {};  // subtracted from pixels, one per channel (empty: 128)
  ops::LossKind loss = ops::LossKind::kCrossEntropy;
  double label_smoothing = 0;
  double focal = 0;                            // of sigmoids (ops/loss.h)
  std::vector<int64_t> positive_weights = {};  // of sigmoids, in units of 2^-10
  double huber_delta = 1;
  std::vector<int64_t> hidden = {};  // widths of mlp's hidden layers; none: its own
  int64_t sequence = 0;  // of language models: tokens of an example; classes are the vocabulary
  bool tied = false;     // of language models: the classifier has the embedding's weights
  // The options of each output, if a network from a file has several, in the order of their losses.
  // `classes` is 0 then.
  std::vector<ModelOptions> outputs = {};
  std::string labels = {};  // of such an output: the input that it is compared with, its name
  int result = 0;           // and its number among the network's results

  int64_t results() const {
    return one_logit ? 1 : loss == ops::LossKind::kOrdinal ? classes - 1 : classes;
  }
};

ops::LossOptions loss_options(const ModelOptions& options);

// Names that build_model takes, with a line about each.
struct ModelInfo {
  const char* name;
  const char* description;
};
std::span<const ModelInfo> models();           // of pictures
std::span<const ModelInfo> language_models();  // of tokens

// The largest learning rate of a model's schedule if none is given (SGD with momentum, batch 128).
// An unknown name has the learning rate of resnet8.
double default_learning_rate(std::string_view name);

// Whether a network of that name reads sequences of tokens, not pictures.
bool is_language_model(std::string_view name);

// Whether it is a masked language model: its examples have masks, segments and lengths.
bool is_masked_model(std::string_view name);

// Whether it translates: its examples are pairs of sentences.
bool is_translation_model(std::string_view name);

// Builds a network by name. Unknown names, images that are too small and other impossible options
// are errors that name the possible values.
Result<Graph> build_model(std::string_view name, const ModelOptions& options);

}  // namespace mantissa
