// Predictions of a frozen network, batch by batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/inference/inference_config.h"
#include "base/result.h"
#include "base/system/thread_pool.h"
#include "data/batches/examples.h"
#include "infer/frozen_network.h"
#include "mantissa/mantissa.h"

namespace mantissa {

struct PredictionConfig : InferenceConfig {
  std::string input;  // one a line
  std::string csv;
  std::string raw;
  int64_t first_index = 0, last_index = 0;
};

constexpr int64_t kPredictedAtOnce = 64;  // examples; changes no result

// The results of an output for all predictions, as they were computed.
struct RawResults {
  std::vector<int32_t> mantissas = {};
  int exponent = 0;
  std::vector<float> logits = {};  // in fp32, in place of mantissas
};

// The network, and what is predicted with it.
struct Predictor {
  FrozenNetwork& network;
  ThreadPool& pool;
  Isa isa;
  Predictions& result;
  std::vector<FrozenDescription> outputs;  // output_descriptions
  std::vector<RawResults> raw;             // one for each of them

  // Predicts `batch`; `examples` are its own.
  Status run(std::vector<Prediction> batch, const Examples& examples);
  // Whether arrays fill the network's inputs: by name, or one of positions or pictures of numbers.
  bool takes_arrays() const;
};

// A picture, not yet predicted.
Prediction with_pixels(std::string source, const PictureForm& form, std::vector<uint8_t> pixels);

// Predicts the test examples of the data set from the first index to the last.
Status predict_examples(const PredictionConfig& config, Predictor& predictor);

// Whether `input` names files of arrays.
bool names_arrays(const PredictionConfig& config);

// Predicts the pictures of the NPZ or NPY files that `input` names, one a line.
Status predict_picture_arrays(const PredictionConfig& config, Predictor& predictor);

// Predicts the examples of the NPZ files that `input` names, one a line.
Status predict_arrays(const PredictionConfig& config, Predictor& predictor);

// Predicts the rows of the files of tables that `input` names, one a line.
Status predict_rows(const PredictionConfig& config, Predictor& predictor);

}  // namespace mantissa
