// An operator is a row of functions and traits. The graph, the plan and the runtime know operators
// only through this; a new op is a new row (docs/extending.md).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/gradient.h"
#include "graph/graph.h"
#include "numerics/format.h"
#include "tensor/execution.h"
#include "tensor/grid.h"
#include "tensor/tensor.h"

namespace mantissa {

namespace kernels {
struct KernelTable;
}

// How the exponent of a value is found when it is requantised.
enum class ExponentMode : uint8_t {
  kExact,      // from the block's own maximum, in two passes
  kPredicted,  // as kExact, in one pass with the exponent used last; again if that was wrong
  kFixed,      // given: the slot holds it (frozen network)
  kCalibrate,  // exact, and the wide values are counted in a histogram
  kDecided,    // decided before, and the bits are counted (dynamic fixed point, METHODS section 2)
};

// Whether batch norm uses the statistics of the batch (else the running ones).
constexpr bool is_training(ExponentMode mode) {
  return mode == ExponentMode::kExact || mode == ExponentMode::kPredicted ||
         mode == ExponentMode::kDecided;
}

// Counts of wide values by the smallest exponent that holds them in the value's bits: counts[e +
// 128] for e in [-128, 127], per channel for guarded values.
constexpr int kHistogramBins = 256;

// The sums of one loss of the graph over the examples of a step. A row is an example, or an element
// of its sequence. Rows with a label below 0, or a weight of 0, do not count.
struct LossTotals {
  int64_t loss_q24 = 0;    // in units of Op::loss_unit, each row times its weight
  int64_t correct = 0;     // of losses that compare with a class
  int64_t rows = 0;        // with those that do not count
  int64_t counted = 0;     // rows
  int64_t weight_q10 = 0;  // of these rows; without weights each has 1

  LossTotals& operator+=(const LossTotals& other) {
    loss_q24 += other.loss_q24;
    correct += other.correct;
    rows += other.rows;
    counted += other.counted;
    weight_q10 += other.weight_q10;
    return *this;
  }
};

// Results that an instruction adds to a step's totals.
struct StepTotals {
  // Gradients redone because they outgrew their predicted exponent; in dynamic fixed point,
  // instructions run again in the warm-up.
  int64_t re_executions = 0;
  int64_t mispredictions = 0;    // values redone because their predicted exponent was wrong
  int64_t guard_violations = 0;  // micro-batches with a channel narrower than one unit
  // Channels of inverted batch norms that could not be inverted and found no room.
  int64_t norm_channels_left_out = 0;
  double gradient_norm = 0;        // of the mean gradient, in programs that clip
  double gradient_factor = 1;      // multiplies the gradient in updates, to clip it
  bool gradient_overflow = false;  // a weight gradient outgrew its accumulator
  bool exponent_overflow = false;  // an exponent left -128..127, or a scalar was not finite
  bool kernel_failed = false;      // fp32: the library that computes it reported an error
};

// Scalars that train/ fills before a step.
struct StepScalars {
  double learning_rate = 0;
  double momentum = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // Adam
  double weight_decay = 0;
  double gradient_scale = 1;  // 1 / batch size
  double clip_norm = 0;       // largest norm of the scaled gradient, in programs that clip
  double statistics_momentum = 0.1;
  uint64_t seed = 0;  // of stochastic rounding and dropout
  int64_t step = 0;   // steps done before, since the start of the run
  // Position of the first row of a piece of a sequence (ProgramOptions::cached_positions).
  int64_t position = 0;
};

// Tensors that an optimiser may keep per parameter.
constexpr int kMostMoments = 2;

struct Op;
struct OpContext;
struct OpShapes;
struct PlanningContext;
struct GradientRows;

// A parameter with everything that belongs to it. Absent parts have data == nullptr.
struct ParameterView {
  Tensor mantissa;     // exponent: of the weights
  Tensor accumulator;  // int16, exponent - lazy_shift
  // Kept by the optimiser, int16 with exponents: the velocity, or Adam's two moments.
  std::array<Tensor, kMostMoments> moments;
  // Sums over the batch, int64, at an exponent that is fixed at the start of a step. If they are
  // the sums of the only micro-batch, they may be int32 instead: exact, at an exponent of their
  // own. An update then rounds them to the fixed exponent, as int64 sums were.
  Tensor gradient;
  // If grad_weights decides between the two: whether it wrote int32, into memory for int64. If
  // there is memory for int32 only, it leaves sums that need int64 to the update.
  uint8_t* narrow_sums = nullptr;
  int16_t* fixed_exponent = nullptr;
  int lazy_shift = 15;
  WeightGrid grid;  // of weights on a grid that stays
  bool decays = false;
  double rate_factor = 1;              // multiplies the learning rate
  bool rounds_stochastically = false;  // updates
  int index = -1;                      // in the graph: part of keys of random numbers
  // Of an update that computes the gradient itself, a few rows at a time. `gradient` has room for
  // these rows and for the kernel's scratch, once for each part that works on its own
  // (ops/gradient_rows.h). If sums are measured, it does so only if they do not fit int32. Null:
  // the gradient is there.
  const GradientRows* gradient_rows = nullptr;
  int64_t rows_at_once = 0;
};

// The decisions of an op for an instruction before the first step, such as kernels chosen by
// shapes. Only the op knows the type.
using Prepared = std::shared_ptr<const void>;

// How an op computes the gradient of its first parameter a few rows (output channels) at a time.
// The update then needs no memory for the whole gradient, or none for sums of 64 bits. In the first
// case the op's grad_weights finds no sums of that parameter there, leaves them out, and needs
// no scratch. In the second case it leaves out the sums that it measured not to fit 32 bits.
struct GradientRows {
  // Whether it can, for the only micro-batch.
  bool (*possible)(const OpShapes&) = nullptr;
  // Scratch of one thread for up to `rows` rows.
  int64_t (*scratch_bytes)(const OpShapes&, const PlanningContext&, int64_t rows) = nullptr;
  // Makes OpKernels::prepared for `compute`. Null: nothing.
  Prepared (*prepare)(const OpContext&) = nullptr;
  // Writes the sums of the rows from `first` on, on the calling thread: int32, at the exponent of
  // the products; or int64, at the fixed exponent, if they were measured not to fit. The context is
  // the update's, with the node's attributes, inputs and grad_output.
  void (*compute)(const OpContext&, int64_t first, int64_t rows, void* sums,
                  std::span<std::byte> scratch) = nullptr;
};

// The memory of an op in a program that computes sequences piece by piece: the data of earlier
// positions that later positions read, such as keys and values.
struct PositionCache {
  std::byte* data = nullptr;  // null: whole sequences are computed, or the op keeps nothing
  int64_t example_bytes = 0;  // from one example to the next
  int64_t positions = 0;      // of a sequence, at most

  bool exists() const { return data != nullptr; }
  std::byte* of(int64_t example) const { return data + example * example_bytes; }
};

// The node that an instruction computes. Of others, such as updates, only the op.
struct OpNode {
  const Op* op = nullptr;
  int index = -1;  // in the graph: part of keys of random numbers
  const Attributes* attributes = nullptr;
};

// How an instruction computes.
struct OpMode {
  bool relu = false;  // the ReLU that follows is part of it
  ExponentMode exponents = ExponentMode::kExact;
  bool half_up = false;  // how values are rounded, else to nearest even (Format::even_ties)
  // The forward pass of this micro-batch was run before, and its output is wanted again: the
  // exponents in the slots and the bytes of `saved` belong to the output.
  bool recomputes = false;
  bool follows_other_uses = false;  // of its parameters, in this backward pass
};

// Memory besides the operands; null: none.
struct OpBuffers {
  std::byte* saved = nullptr;       // written forward, read backward
  std::byte* statistics = nullptr;  // one record per micro-batch, read at the end of the step
  std::byte* workspace = nullptr;
  bool workspace_is_left = false;  // by grad_weights (GradientEmitter::left_workspace)
  PositionCache cache = {};
};

// The kernels, with their pool and scratch, and the decisions that the op made for the instruction.
struct OpKernels : KernelContext {
  const kernels::KernelTable* table = nullptr;
  const void* prepared = nullptr;
};

// The step and the part of it that is computed now.
struct OpStep {
  int micro_batch = 0;
  int micro_batches = 1;
  const StepScalars* scalars = nullptr;
  StepTotals* totals = nullptr;
  LossTotals* loss = nullptr;  // of a loss
};

// Everything that an instruction works on. Shapes include the micro-batch as first dimension.
struct OpContext {
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<const Tensor> grad_outputs;  // empty data if no gradient comes back
  std::span<const Tensor> grad_inputs;   // empty data if no gradient is wanted
  std::span<const ParameterView> parameters;
  OpNode node;
  OpMode mode;
  OpBuffers memory;
  OpKernels kernel;
  OpStep step;

  // The first ones, or a tensor without data.
  const Tensor& output() const { return outputs.empty() ? kNoTensor : outputs[0]; }
  const Tensor& grad_output() const { return grad_outputs.empty() ? kNoTensor : grad_outputs[0]; }
  template <typename T>
  const T& attributes() const {
    return node.attributes->as<T>();
  }
  // Whether gradients of weights are added to sums of earlier micro-batches and other nodes.
  bool adds_gradients() const { return step.micro_batch > 0 || mode.follows_other_uses; }
};

// Shapes (with the micro-batch) and numeric modes that an op's memory depends on.
struct OpShapes {
  const Attributes* attributes = nullptr;
  std::span<const Shape> inputs = {};
  Shape output = {};  // the first
  std::span<const Shape> parameters = {};
  DataType output_type = DataType::kInt8;
  ExponentMode exponent_mode = ExponentMode::kExact;
  bool half_up = false;
  std::span<const Grid> input_grids = {};  // left out: 8 bits
  std::span<const Grid> parameter_grids = {};
  Grid gradient = {.bits = 16};       // read and written by grad_input
  Grid wide_gradient = {.bits = 16};  // read by grad_weights
  int64_t cached_positions = 0;       // ProgramOptions::cached_positions

  int input_bits(size_t input) const { return input_grids.empty() ? 8 : input_grids[input].bits; }
};

// Memory of an instruction besides its operands, in bytes. Scratch belongs to the kernel.
struct RowMemory {
  int64_t workspace_bytes = 0;
  int64_t scratch_bytes = 0;
};

struct OpMemory {
  int64_t saved_bytes = 0;       // from forward to backward
  int64_t statistics_bytes = 0;  // per micro-batch, to the end of the step
  int64_t cache_bytes = 0;       // per example: PositionCache
  RowMemory forward = {};
  RowMemory grad_input = {};
  RowMemory grad_weights = {};
};

struct PlanningContext {
  const kernels::KernelTable* kernels = nullptr;
  int threads = 1;
};

// The type of a value that an op reads or writes, for one example.
struct ValueType {
  Shape shape;
  Element element = Element::kMantissa;
  bool operator==(const ValueType&) const = default;
};

// The mantissas that an op writes.
enum class Narrowing : uint8_t {
  kRounded,  // wide results, narrowed to the value's width
  kPassed,   // mantissas of the input, or zeros: nothing is clipped
  // Sums of products with weights. Gradients between two layers have gw bits (BlockFloat
  // [0115]-[0123], [0128]). The sums may stay in int32, unrequantised.
  kLayer,
  kFrozenLayer,  // the same, always narrowed
  // Mantissas of Op::bits at an exponent that an attribute gives, in any format.
  kOwnGrid,
};

enum class Sign : uint8_t {
  kAny,
  kKept,           // no result is negative if no input is
  kNeverNegative,  // no result is
};

// The exponents of the inputs that an op takes.
enum class TakenExponents : uint8_t { kOne, kOfChannels, kOfRows };

// Inputs that an op takes for others, their gradients too.
struct Clips {
  bool negatives = false;  // for zero
  int above = 0;           // larger ones for this; 0: none
};

// Facts about the values of an op.
struct OpTraits {
  Narrowing narrowing = Narrowing::kRounded;
  Sign sign = Sign::kAny;
  Clips clips = {};
  TakenExponents takes = TakenExponents::kOne;
  // A row of the result, along the last axis, needs the same rows of the inputs and no others.
  bool row_by_row = false;
  bool applies_relu = false;  // a ReLU that is its only reader acts on its wide result
};

// The width of the exact sums of a micro-batch that an op writes as the gradient of its first
// parameter. kInt32: all sums that the shapes allow fit. kMeasured: int32 if grad_weights finds
// that the sums of its operands fit.
enum class SumWidth : uint8_t { kInt64, kInt32, kMeasured };

// The computation of an instruction.
struct OpRow {
  void (*run)(const OpContext&) = nullptr;  // null: there is no such row
  // Makes OpKernels::prepared for an instruction, once, with the executor. The context is the
  // step's, but nothing has been computed and the caller's batch is not there. Null: nothing.
  Prepared (*prepare)(const OpContext&) = nullptr;
  // Of grad_weights: whether it writes the first parameter's gradient if it does not add to it. All
  // other gradients are zero when the first micro-batch comes.
  bool writes_first_gradient = false;

  explicit operator bool() const { return run != nullptr; }
};

// The rows of an op in one arithmetic.
struct OpRows {
  OpMemory (*memory)(const OpShapes&, const PlanningContext&) = nullptr;  // null: none
  // Preconditions of the kernels that shapes decide (longest exact sum ...); null: none.
  Status (*check)(const OpShapes&) = nullptr;
  OpRow forward = {};     // or of an update
  OpRow grad_input = {};  // none: nothing flows back
  // None: no trained parameters. Runs before grad_input of a node that saves something; otherwise
  // the order is open.
  OpRow grad_weights = {};
  // At the end of a step, over the statistics of all micro-batches in order.
  OpRow statistics = {};
  // The name of the kernel that does the work, for reports; null: none, or several.
  const char* (*kernel)(const OpContext&) = nullptr;
  // The width of the sums there; null: int64.
  SumWidth (*sum_width)(const OpShapes&) = nullptr;
};

struct Op {
  const char* name = "";
  OpTraits traits = {};

  // With the struct that the functions read (Attributes::as).
  AttributeSchema attributes = {};
  // The bits of the results' mantissas that the attributes ask for: these, of an op with its own
  // grid; at least these, of others. Null: none.
  int (*bits)(const Attributes&) = nullptr;
  // Shape of one example of the output, or why the inputs do not fit.
  Result<Shape> (*infer_shape)(const Attributes&, std::span<const Shape> inputs) = nullptr;
  // Replaces infer_shape if there are several outputs, or others than mantissas.
  Result<std::vector<ValueType>> (*infer_outputs)(const Attributes&,
                                                  std::span<const Shape> inputs) = nullptr;
  // Replaces both, for rows that are made while the program runs and know more than an Op.
  Result<std::vector<ValueType>> (*infer_own)(const Op&, const Attributes&,
                                              std::span<const Shape> inputs) = nullptr;
  // The elements of the inputs. Inputs beyond these are mantissas.
  std::span<const Element> input_elements = {};
  // Their names follow the node's name and a point. Null: no parameters.
  std::vector<Parameter> (*parameters)(const Attributes&, std::span<const Shape> inputs) = nullptr;
  // Multiply-adds of the forward pass; null: negligible.
  int64_t (*multiply_adds)(const OpShapes&) = nullptr;

  OpRows integer = {};
  // Writes the instructions of the backward pass; null: nothing flows back.
  void (*emit_gradient)(GradientEmitter&) = nullptr;
  // Null: only as a whole. In integers only.
  const GradientRows* gradient_rows = nullptr;

  // For a loss, whose first output is a real number: the value of one LossTotals::loss_q24, in the
  // unit that people read. 0: not a loss.
  double loss_unit = 0;

  // The op that replaces it in the frozen network, with the attributes that it has, too; null:
  // itself.
  const Op* frozen = nullptr;

  // Null: the op computes in integers only.
  const OpRows* fp32 = nullptr;
};

// Whether the output is the input under another shape: there is no instruction.
inline bool is_view(const Op& op) { return !op.integer.forward && !op.integer.grad_input; }
inline bool passes_mantissas(const Op& op) { return op.traits.narrowing == Narrowing::kPassed; }
inline bool has_own_grid(const Op& op) { return op.traits.narrowing == Narrowing::kOwnGrid; }
inline bool may_leave_wide(const Op& op) { return op.traits.narrowing == Narrowing::kLayer; }
inline bool is_layer(const Op& op) {
  return may_leave_wide(op) || op.traits.narrowing == Narrowing::kFrozenLayer;
}

// The op's outputs for one example. Attributes with defaults may be left out.
Result<std::vector<ValueType>> output_types(const Op& op, const Attributes& attributes,
                                            std::span<const Shape> inputs);
// The shape of the first.
Result<Shape> output_shape(const Op& op, const Attributes& attributes,
                           std::span<const Shape> inputs);

}  // namespace mantissa
