// Networks of one's own: built layer by layer, or read from JSON.
//
//   mantissa::NetworkBuilder net("digits");
//   net.pixels("pixels", {8, 8, 1});
//   net.convolution({.channels = 16});
//   net.batch_norm();
//   net.relu();
//   net.global_average_pool();
//   const mantissa::Var logits = net.linear(10);
//   net.cross_entropy(logits, "labels");
//   mantissa::Outcome<mantissa::Network> network = net.finish({logits});
//   if (!network) std::cerr << network.error() << "\n";
//
// docs/networks.md has all operators and the JSON.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "mantissa/export.h"
#include "mantissa/outcome.h"

namespace mantissa {

// Element types of arrays. An input of numbers takes any of them as numbers and rounds them to its
// exponent. Only kMantissa is not rounded: 16-bit mantissas that already have this exponent.
enum class Elements { kUint8, kInt16, kInt32, kInt64, kFloat, kDouble, kMantissa };

// Dimensions of one example, outermost first: pictures are {height, width, channels}; {} is a
// single number.
using Dims = std::vector<int64_t>;

// A setting of an operator: a whole number (also a flag), a real number, a text, whole numbers.
using OperatorSetting = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using OperatorSettings = std::map<std::string, OperatorSetting>;

// A value of a network that is being built. The default is the last one.
struct Var {
  int index = -1;
};

// {height, width, channels} for a picture, {positions, channels} for a sequence.
struct ConvolutionOptions {
  int64_t channels = 1;
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = -1;  // -1: half of the kernel, which keeps the size
  int64_t groups = 1;
  int64_t dilation = 1;
  bool bias = false;
  bool causal = false;  // of a sequence: all padding, (kernel - 1) * dilation, lies before it
};

// {depth, height, width, channels} for a volume or a video: an axis's numbers are of depth, height
// and width.
struct VolumeConvolutionOptions {
  int64_t channels = 1;
  std::array<int64_t, 3> kernel = {3, 3, 3};
  std::array<int64_t, 3> stride = {1, 1, 1};
  std::array<int64_t, 3> padding = {-1, -1, -1};  // -1: half of the kernel, which keeps the size
  int64_t depth_dilation = 1;
  int64_t dilation = 1;  // of height and width
  int64_t groups = 1;
  bool bias = false;
};

// The description of an input that batches bring.
struct InputInfo {
  std::string name;
  Elements elements = Elements::kUint8;  // kMantissa: times 2^exponent
  Dims dims;
  int exponent = 0;
};

struct ParameterInfo {
  std::string name;  // "conv1.weights"
  Dims dims;
  bool trained = true;
};

// The pictures and classes that a built-in network is built for, and its choices.
struct BuiltInOptions {
  Dims pixels = {28, 28, 1};
  int64_t classes = 10;
  double width = 1;            // multiplies the channels of every layer but the last
  double label_smoothing = 0;  // part of each target that all classes share
  bool squared_error = false;  // against one-hot targets, in place of cross-entropy
  // As --loss: "cross-entropy", "mse", "sigmoid", "ordinal"; or of `classes` numbers, which batches
  // bring as "targets" at the exponent -12: "regression" (squared errors), "l1", "huber".
  std::string loss = {};
  bool by_output = false;  // sigmoid: labels of 0 and 1, one for each output
  double focal = 0;        // sigmoid and ordinal, as SigmoidLoss has it
  std::vector<double> positive_weights = {};  // the same
  double huber_delta = 1;
};

// The form of a cross-entropy of sigmoids.
struct SigmoidLoss {
  bool by_output = false;  // labels of 0 and 1, one for each logit [..., outputs]
  // Labels are ranks, from 0 to the number of outputs: of a label r the first r outputs are 1.
  bool ordinal = false;
  double label_smoothing = 0;  // half of it is the target 0, and as much is missing from 1
  double focal = 0;  // 0 to 5: the power of what a probability misses that multiplies its loss
  // Weights of targets of 1, from 0 to 31: none, one, or one for each output.
  std::vector<double> positive_weights = {};
  std::string weights = {};  // an input of weights of rows
};

// The form of a Dice loss.
struct DiceLoss {
  double smooth = 1;         // 2^-20 to 65536: places added to both sides of each quotient
  double cross_entropy = 0;  // 0 to 100: the factor of the cross-entropy that is added
  std::string weights = {};  // an input of weights of places
};

// The form of a triplet loss.
struct TripletLoss {
  double margin = 0.2;         // 0 to 4, of squared distances of vectors of length 1
  // All triplets of an example, the "hard" one, or "semi-hard": for each example with its label the
  // nearest one with another label that is farther.
  std::string mining = "all";
};

// The form of a CTC loss.
struct CtcLoss {
  int64_t blank = 0;         // the class that is no label
  std::string lengths = {};  // an input of the positions that count; added if there is none
};

// The penalty of an error d of a number.
struct NumberLoss {
  std::string penalty = "squared";  // d^2, "absolute" |d|, or "huber"
  double delta = 1;                 // huber: d^2 / 2 up to it, delta * (|d| - delta / 2) beyond
  std::string weights = {};         // an input of weights of examples
};

// A network: a value, cheap to copy.
class MANTISSA_EXPORT Network {
 public:
  // Networks as docs/networks.md describes them. Errors name the line.
  static Outcome<Network> from_json(const std::string& text);
  static Outcome<Network> read(const std::string& path);
  // "resnet20" and the others of built_in_models(). Inputs are "pixels" and "labels". Pixels have
  // no means yet: set them, or nothing is subtracted.
  static Outcome<Network> built_in(const std::string& name, const BuiltInOptions& options = {});
  std::string to_json() const;

  const std::string& name() const;
  std::vector<InputInfo> inputs() const;
  std::vector<ParameterInfo> parameters() const;
  // One line per layer: name, operator, shape.
  std::string summary() const;

  // The same network, in which parameters are not trained: the setting `freeze` of a run. Commas
  // separate patterns of names, as in "stem*,stage1.*". Each must fit a parameter.
  Outcome<Network> with_frozen(const std::string& patterns) const;

  // The same network with means to subtract from pixels, one for each channel, if it has none. A
  // run of `train` takes the means of its training pictures, rounded to nearest (ties up).
  Outcome<Network> with_pixel_means(const std::vector<int64_t>& means) const;

  struct Data;
  explicit Network(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  const Data& data() const { return *data_; }

 private:
  std::shared_ptr<const Data> data_;
};

// Builds a network. Layers get names of their own, "convolution1", if none is given. The first
// error stays: error() has it at once, and finish() returns it.
class MANTISSA_EXPORT NetworkBuilder {
 public:
  explicit NetworkBuilder(std::string name);
  // Goes on with a network without its losses, and without inputs that nothing else reads. The last
  // value is its first output; outputs() has all.
  explicit NetworkBuilder(const Network& network);
  ~NetworkBuilder();
  NetworkBuilder(NetworkBuilder&&) noexcept;
  NetworkBuilder& operator=(NetworkBuilder&&) noexcept;

  // Pictures, uint8, less a mean for each channel (128 if none is given), in units of 1/64.
  Var pixels(const std::string& name, const Dims& dims, const std::vector<int64_t>& means = {});
  // Numbers of 16 bits times 2^exponent: float arrays are rounded to them. exponent_for() gives
  // the exponent for data of a known range.
  Var numbers(const std::string& name, const Dims& dims, int exponent);
  // Whole numbers: classes, tokens. Operators that take indices read them.
  Var indices(const std::string& name, const Dims& dims);

  // Any operator, with these settings and the defaults of the others.
  Var add(const std::string& op, const std::vector<Var>& inputs,
          const OperatorSettings& settings = {}, const std::string& name = "");
  // The same for all results of the operator.
  std::vector<Var> add_all(const std::string& op, const std::vector<Var>& inputs,
                           const OperatorSettings& settings = {}, const std::string& name = "");
  // The operator with the parameters of the layer that made `with`.
  Var add_sharing(Var with, const std::string& op, const std::vector<Var>& inputs,
                  const OperatorSettings& settings = {}, const std::string& name = "");

  Var convolution(const ConvolutionOptions& options, Var input = {}, const std::string& name = "");
  // Two layers: depth_taps, unless the depth is left alone, and a convolution.
  Var volume_convolution(const VolumeConvolutionOptions& options, Var input = {},
                         const std::string& name = "");
  Var linear(int64_t channels, Var input = {}, const std::string& name = "");
  Var batch_norm(Var input = {}, const std::string& name = "");
  Var relu(Var input = {}, const std::string& name = "");
  Var max_pool(int64_t window, Var input = {}, const std::string& name = "");
  Var global_average_pool(Var input = {}, const std::string& name = "");
  Var flatten(Var input = {}, const std::string& name = "");
  Var sum(Var a, Var b, const std::string& name = "");
  Var dropout(double probability, Var input = {}, const std::string& name = "");

  // Losses. Each has an input of its own, which batches bring under this name: labels, int32, one
  // for each row of logits [..., classes]; or targets, numbers times 2^exponent, as many as the
  // result has. The result comes from a linear layer. A label of -1 does not count. `weights` names
  // an input of numbers from 0 to 31 in steps of 1/1024, one for each label, or for each example's
  // targets: the loss of a batch is then the weighted mean.
  void cross_entropy(Var logits, const std::string& labels, double label_smoothing = 0,
                     const std::string& weights = "");
  // With by_output: labels of 0 and 1, one for each logit [..., outputs]. Else one label for each
  // row of logits: the index of the only output that is 1; or, for a single output, 0 or 1.
  void sigmoid_cross_entropy(Var logits, const std::string& labels, bool by_output,
                             const std::string& weights = "");
  void sigmoid_cross_entropy(Var logits, const std::string& labels, const SigmoidLoss& form);
  void squared_error(Var results, const std::string& targets, int exponent,
                     const std::string& weights = "");
  void number_error(Var results, const std::string& targets, int exponent, const NumberLoss& form);
  // Against a distribution over the classes: numbers from 0 to 1 as many as logits, in steps of
  // 2^-14.
  void soft_cross_entropy(Var logits, const std::string& targets, const std::string& weights = "");
  // (1 - teacher_weight) * the cross-entropy against labels + teacher_weight * temperature^2 * the
  // cross-entropy of the softmax of logits / temperature, from 1 to 100, against a distribution.
  void distilled_cross_entropy(Var logits, const std::string& labels, const std::string& targets,
                               double temperature, double teacher_weight,
                               const std::string& weights = "");
  // 1 - the mean over the classes of Dice's coefficient of an example's places, which the logits
  // [..., classes] tell apart, + cross_entropy times the mean of their cross-entropy.
  void dice(Var logits, const std::string& labels, const DiceLoss& form = {});
  // The vectors [channels] of a batch: vectors with the same label attract each other, all others
  // repel (supervised contrastive). One micro-batch has the whole batch.
  void contrastive(Var vectors, const std::string& labels, double temperature = 0.1);
  // The same vectors and labels by triplets: the squared distance of an example to another one with
  // its label is to be smaller than to one with another label, by a margin.
  void triplet(Var vectors, const std::string& labels, const TripletLoss& form = {});
  // Logits [positions, classes] against sequences of labels without places, at most `most_labels`,
  // filled up with -1 (connectionist temporal classification).
  void ctc(Var logits, const std::string& labels, int64_t most_labels, const CtcLoss& form = {});

  // The factor, from 1/1024 to 31.999, of the loss that is compared with this input, where there
  // are several losses: they are added up. In steps of 1/1024. Powers of two are exact; others
  // multiply gradients as the weights of rows do.
  void loss_weight(const std::string& compared, double weight);

  std::vector<Var> outputs() const;  // of the network that it goes on with
  Dims dims(Var value = {}) const;
  // "" while there is no error.
  std::string error() const;
  Outcome<Network> finish(const std::vector<Var>& outputs);

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

// The smallest exponent at which numbers up to this size fit 16 bits.
MANTISSA_EXPORT int exponent_for(double largest);

}  // namespace mantissa
