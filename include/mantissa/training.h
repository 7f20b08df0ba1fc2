// Training on data in memory, and the trained network.
//
//   auto trainer = mantissa::Trainer::create(network, {{"format", "bfp8"}, {"batch-size", "64"}});
//   const mantissa::ArraySet train = {count, {{"pixels", Elements::kUint8, {8, 8, 1}, p},
//                                             {"labels", Elements::kInt32, {}, l}}};
//   auto history = trainer->fit(train, {.epochs = 5});
//   auto model = trainer->freeze(train);
//   model->save("digits.safetensors");
//   auto predictions = mantissa::Model::load("digits.safetensors")->predict(test);
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mantissa/export.h"
#include "mantissa/mantissa.h"
#include "mantissa/network.h"
#include "mantissa/outcome.h"

namespace mantissa {

// An array of examples, one after the other. Borrowed: the memory stays the caller's.
struct Array {
  std::string name;  // of the network's input
  Elements elements = Elements::kUint8;
  Dims dims;  // of one example
  const void* data = nullptr;
};

// Arrays with the same number of examples each. Elements that a network does not take as they are
// (whole or real numbers for numbers, int64 for indices) are converted into a copy.
struct ArraySet {
  int64_t count = 0;
  std::vector<Array> arrays;
};

struct LossReport {
  double mean = 0;        // nats, or squared units
  double accuracy = -1;   // fraction of right classes; -1: the loss compares with no class
  int64_t uncounted = 0;  // labels of -1 and rows of weight 0, which mean and accuracy leave out
};

// A step, or an evaluation.
struct StepReport {
  int64_t examples = 0;
  double loss = 0;                        // the sum of the means of all losses
  int loss_count = 0;                     // of the network
  std::array<LossReport, 8> losses = {};  // in the network's order
  int64_t clipped = 0;                    // mantissas that did not fit
};

// The bits that a tensor used in a step.
struct TensorStatistics {
  std::string name;        // of a value or a parameter
  std::string kind;        // "value", "gradient", "parameter", "parameter gradient"
  std::string written_by;  // "conv1 (convolution)"
  int bits = 0;            // of its mantissas, without the sign
  int exponent = 0;        // if channels have exponents of their own, the largest
  int64_t clipped = 0;     // mantissas that did not fit
  double mean_bits = 0;    // length of the mantissas
  // lengths[n]: mantissas with 2^(n-1) <= |mantissa| < 2^n; lengths[0]: zeros.
  std::vector<int64_t> lengths;
};

struct EpochReport {
  int64_t epoch = 0, epochs = 0;  // from 1
  StepReport training = {};
  double learning_rate = 0;
};

// After a step of fit().
struct FitProgress {
  int64_t step = 0, steps = 0;    // done, in all
  int64_t epoch = 0, epochs = 0;  // from 1
  StepReport training = {};       // of this epoch's steps
  double learning_rate = 0;
};

struct FitOptions {
  int64_t epochs = 1;
  int64_t steps = 0;  // if above 0, instead of epochs
  // Whether epochs and steps include those that were done before. After load() the call then goes
  // on from the saved state, and ends with the bits of a call that was never stopped.
  bool goes_on = false;
  // Called after each epoch; false stops.
  std::function<bool(const EpochReport&)> observer = nullptr;
  // Called after each step, before the epoch's observer; false stops.
  std::function<bool(const FitProgress&)> step_observer = nullptr;
};

// Numbers of a parameter: number = mantissa * 2^exponent. fp32 has numbers alone.
struct ParameterNumbers {
  Dims dims;
  std::vector<double> numbers;
  std::vector<int32_t> mantissas;
  std::vector<int> exponents;  // one, or one for each part of the first axis
};

// Trained parameters of a file: a run's folder, a checkpoint, a model.safetensors, what
// import_model wrote, or an ONNX model.
class MANTISSA_EXPORT TrainedParameters {
 public:
  static Outcome<TrainedParameters> read(const std::string& path);
  // The network that the parameters belong to.
  Outcome<Network> network() const;
  // The numbers of one of them: of mantissas without the remainder that waits in the accumulator,
  // as a forward pass reads them. An error for a name that the file lacks, and for multipliers and
  // offsets that a frozen network's batch norms were folded into.
  Outcome<ParameterNumbers> parameter(const std::string& name) const;

  struct Data;
  explicit TrainedParameters(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  const Data& data() const { return *data_; }

 private:
  std::shared_ptr<const Data> data_;
};

// Names of parameters, as "conv1.weights [16, 3, 3, 1]".
struct TakenNames {
  std::vector<std::string> taken;
  std::vector<std::string> initial;    // of the network: the source lacks them, or they differ
  std::vector<std::string> left_over;  // of the source: the network has no use for them
};

// A column of a table's rows: numbers, NaN where there is none, or texts as they would stand in a
// CSV file.
struct NamedColumn {
  std::string name;
  std::vector<double> numbers = {};
  std::vector<std::string> texts = {};  // if there are no numbers

  size_t size() const { return texts.empty() ? numbers.size() : texts.size(); }
};

// Rows of a table as a network takes them, with their targets or labels if each row has one.
struct EncodedRows {
  ArraySet arrays;
  std::vector<std::string> notes;      // notes for the user, a line each
  std::shared_ptr<const void> memory;  // keeps the arrays alive, while this or a copy lives
};

// A network with fixed exponents. Predictions do not depend on their neighbours in the batch.
class MANTISSA_EXPORT Model {
 public:
  // Loads model.safetensors, or an ONNX file that export_model wrote. It computes on this many
  // threads; 0: one for each processor.
  static Outcome<Model> load(const std::string& path, int threads = 1);
  Outcome<Done> save(const std::string& path) const;

  // For each output of the network its numbers, example after example. If a table's number is
  // predicted, it is in the units of the table's file.
  Outcome<std::vector<std::vector<double>>> predict(const ArraySet& examples) const;
  // The class that the logits of an example stand for: that of the largest; of two classes by the
  // threshold of the network, of classes in an order how many logits are above 0.
  int guess(const std::vector<double>& logits) const;
  // All that the results of an example stand for: one class; the class of each place, row after row,
  // if the network gives one to each pixel or position; the numbers of the labels above the
  // network's thresholds, any number of them; or labels in an order (ctc_loss), by the best path
  // through the positions that are given. Empty of networks that predict numbers.
  std::vector<int> guesses(const std::vector<double>& results) const;
  // Whether these are lists: of places or labels, in an order or not.
  bool gives_lists() const;
  // Losses of labelled examples.
  Outcome<StepReport> evaluate(const ArraySet& examples) const;
  // The names of the classes in the order of the logits; empty if it predicts numbers.
  const std::vector<std::string>& class_names() const;

  // The columns of the table that it was trained on (docs/data.md); "" if there was none.
  std::string table_json() const;
  // Turns rows with the columns of that table's file into arrays for predict() and evaluate(),
  // which take no others. Columns are found by name, and there may be more.
  Outcome<EncodedRows> encode(const std::vector<NamedColumn>& columns) const;

  Network network() const;
  // SHA-256 of the parameters and running statistics that it was frozen from.
  std::string weights_sha256() const;

  struct Data;
  explicit Model(std::shared_ptr<Data> data) : data_(std::move(data)) {}

 private:
  std::shared_ptr<Data> data_;
};

// Trains a network step by step, or epoch by epoch: the same bits. For one thread at a time; a
// Model predicts and evaluates in several.
class MANTISSA_EXPORT Trainer {
 public:
  // Settings as on the command line of `train`, except the network, data and files. Memory is
  // planned, and the network has its initial weights.
  static Outcome<Trainer> create(const Network& network, const Settings& settings = {});
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  // One update on as many examples as the setting batch-size says. It allocates nothing in integer
  // formats if arrays have the network's elements.
  Outcome<StepReport> step(const ArraySet& batch, double learning_rate);
  // The same, with statistics of its tensors: values, their gradients, parameters after the update,
  // and the sums of their gradients. Slower by about a tenth.
  Outcome<std::vector<TensorStatistics>> observed_step(const ArraySet& batch, double learning_rate);
  // Trains epochs in the order that the seed gives; the learning rate follows the settings. The
  // last, smaller batch of an epoch is left out. The history has the epochs that were completed.
  Outcome<std::vector<EpochReport>> fit(const ArraySet& examples, const FitOptions& options = {});
  int64_t steps_done() const;  // other threads may ask while one is at work
  int64_t batch_size() const;

  // Fixes the exponents on these examples.
  Outcome<Model> freeze(const ArraySet& examples) const;

  Outcome<ParameterNumbers> parameter(const std::string& name) const;
  // Rounds numbers to the parameter's mantissas; what the optimiser keeps for it starts anew.
  Outcome<Done> set_parameter(const std::string& name, const std::vector<double>& numbers);

  // Takes the parameters whose names and shapes are the network's, as `from` of a run does. An
  // error if there are none.
  Outcome<TakenNames> take(const TrainedParameters& trained);

  // All of the state. A trainer of the same network and settings goes on with the same bits.
  Outcome<Done> save(const std::string& path) const;
  Outcome<Done> load(const std::string& path);
  // SHA-256 of parameters and running statistics.
  std::string weights_sha256() const;
  // Memory by kind.
  std::string plan() const;

 private:
  struct Data;
  explicit Trainer(std::unique_ptr<Data> data);
  std::unique_ptr<Data> data_;
};

}  // namespace mantissa
