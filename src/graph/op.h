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
#include "graph/graph.h"
#include "numerics/format.h"
#include "tensor/execution.h"
#include "tensor/grid.h"
#include "tensor/tensor.h"

namespace mantissa {

namespace kernels {
struct KernelTable;
}

// The purpose of an instruction.
enum class Phase : uint8_t {
  kForward,
  kBackwardWeights,
  kBackwardInput,
  kUpdate,            // optimiser
  kUpdateStatistics,  // batch norm's running statistics
  kRecompute,         // in the backward pass: forward again, for a value that was not kept
};

// How the exponent of a value is found when it is requantised.
enum class ExponentMode : uint8_t {
  kExact,      // from the block's own maximum, in two passes
  kPredicted,  // as kExact, in one pass with the exponent used last; again where that was wrong
  kFixed,      // given: the slot holds it (frozen network)
  kCalibrate,  // exact, and the wide values are counted in a histogram
  kDecided,    // decided before, and the bits are counted (dynamic fixed point, METHODS section 2)
};

// Whether batch norm takes the statistics of the batch (else the running ones).
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
  double gradient_factor = 1;      // what updates multiply the gradient by, to clip it
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

// A parameter with everything that belongs to it. Absent parts have data == nullptr.
struct ParameterView {
  Tensor mantissa;     // exponent: the weights' own
  Tensor accumulator;  // int16, exponent - lazy_shift
  // Kept by the optimiser, int16 with exponents: the velocity, or Adam's two moments.
  std::array<Tensor, kMostMoments> moments;
  // Sums over the batch, int64 at an exponent that is fixed at the start of a step; or, where these
  // hold the sums of the only micro-batch, int32, exact, at an exponent of their own. An update
  // rounds them to the fixed one as int64 sums were.
  Tensor gradient;
  // Where backward_weights decides between the two: whether it wrote int32, into memory for int64.
  // Where there is memory for int32 only, it leaves sums that need int64 to the update.
  uint8_t* narrow_sums = nullptr;
  int16_t* fixed_exponent = nullptr;
  int lazy_shift = 15;
  WeightGrid grid;  // of weights on a grid that stays
  bool decays = false;
  double rate_factor = 1;              // multiplies the learning rate
  bool rounds_stochastically = false;  // updates
  int index = -1;                      // of the graph: names it in keys of random numbers
};

struct Op;
struct OpContext;
struct OpShapes;
struct PlanningContext;

// Everything that an op decides for an instruction before the first step, such as kernels that its
// shapes choose. Only the op knows the type.
using Prepared = std::shared_ptr<const void>;

// How an op computes the gradient of its first parameter a few rows (output channels) at a time,
// for an update that then needs no memory for all of it, or none for sums of 64 bits. In the first
// case the op's backward_weights finds no sums of that parameter there and leaves them out, and
// needs no scratch; in the second it leaves out those that it measured not to fit 32 bits.
struct GradientRows {
  // Whether it can, of the only micro-batch.
  bool (*possible)(const OpShapes&) = nullptr;
  // Scratch of one thread for up to so many rows.
  int64_t (*scratch_bytes)(const OpShapes&, const PlanningContext&, int64_t rows) = nullptr;
  // Makes OpContext::prepared for `compute`. Null: nothing.
  Prepared (*prepare)(const OpContext&) = nullptr;
  // Writes the sums of the rows from `first` on, on the calling thread: int32, at the exponent of
  // the products, or int64, at the one that is fixed, where they were measured not to fit. The
  // context is the update's, with the node's attributes, inputs and grad_output.
  void (*compute)(const OpContext&, int64_t first, int64_t rows, void* sums,
                  std::span<std::byte> scratch) = nullptr;
};

// The memory of an op in a program that computes sequences piece by piece: what later positions
// read of earlier ones, such as keys and values.
struct PositionCache {
  std::byte* data = nullptr;  // null: whole sequences are computed, or the op keeps nothing
  int64_t example_bytes = 0;  // from one example's to the next one's
  int64_t positions = 0;      // of a sequence, at most

  bool exists() const { return data != nullptr; }
  std::byte* of(int64_t example) const { return data + example * example_bytes; }
};

// Everything that an instruction works on. Shapes include the micro-batch as first dimension.
struct OpContext {
  const Op* op = nullptr;
  const Attributes* attributes = nullptr;
  bool relu = false;  // the ReLU that follows is part of this instruction
  ExponentMode exponent_mode = ExponentMode::kExact;
  // The forward pass of this micro-batch has been, and its output is wanted again: the exponents in
  // the slots and the bytes of `saved` belong to the output.
  bool recomputes = false;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<const Tensor> grad_outputs;  // empty data where no gradient comes back
  Tensor output;                         // outputs[0]
  Tensor grad_output;                    // grad_outputs[0]
  std::span<const Tensor> grad_inputs;   // empty data where no gradient is wanted
  std::span<const ParameterView> parameters;
  std::byte* saved = nullptr;       // written forward, read backward
  std::byte* statistics = nullptr;  // one record per micro-batch, read at the end of the step
  std::byte* workspace = nullptr;
  bool workspace_is_left = false;  // by backward_weights (OpTraits::leaves_workspace)
  PositionCache cache = {};
  int64_t* histogram = nullptr;  // kCalibrate: where wide values are counted; null: they are not
  // An update that computes the gradient itself, so many rows at a time: parameters[0].gradient
  // has room for them, and the kernel's scratch, once for each part that works on its own
  // (ops/gradient_rows.h). Where sums are measured, only if they do not fit int32. Null: the
  // gradient is there.
  const GradientRows* gradient_rows = nullptr;
  int64_t rows_at_once = 0;
  int node = -1;  // of the graph: names it in keys of random numbers
  int micro_batch = 0;
  int micro_batches = 1;
  KernelContext kernel;  // pool and the kernel's scratch
  const kernels::KernelTable* kernels = nullptr;
  const void* prepared = nullptr;  // by the op, for this instruction
  const StepScalars* scalars = nullptr;
  StepTotals* totals = nullptr;
  LossTotals* loss = nullptr;  // of a loss

  bool follows_other_uses = false;  // of its parameters, in this backward pass
  // Whether gradients of weights are added to sums of earlier micro-batches and other nodes.
  bool adds_gradients() const { return micro_batch > 0 || follows_other_uses; }
};

// Shapes (with the micro-batch) and numeric modes that an op's memory depends on.
struct OpShapes {
  const Attributes* attributes = nullptr;
  std::span<const Shape> inputs = {};
  Shape output = {};  // the first
  std::span<const Shape> parameters = {};
  DataType output_type = DataType::kInt8;
  ExponentMode exponent_mode = ExponentMode::kExact;
  std::span<const Grid> input_grids = {};  // left out: of 8 bits
  std::span<const Grid> parameter_grids = {};
  Grid gradient = {.bits = 16};       // that backward_input reads and writes
  Grid wide_gradient = {.bits = 16};  // that backward_weights reads
  int64_t cached_positions = 0;       // ProgramOptions::cached_positions

  int input_bits(size_t input) const { return input_grids.empty() ? 8 : input_grids[input].bits; }
};

// Memory of an instruction besides its operands, in bytes. Scratch belongs to the kernel.
struct PhaseMemory {
  int64_t workspace_bytes = 0;
  int64_t scratch_bytes = 0;
};

struct OpMemory {
  int64_t saved_bytes = 0;       // from forward to backward
  int64_t statistics_bytes = 0;  // per micro-batch, to the end of the step
  int64_t cache_bytes = 0;       // per example: PositionCache
  PhaseMemory forward = {};
  PhaseMemory backward_input = {};
  PhaseMemory backward_weights = {};
};

struct PlanningContext {
  const kernels::KernelTable* kernels = nullptr;
  int threads = 1;
};

// A value that an op reads or writes: what it is of one example.
struct ValueType {
  Shape shape;
  Element element = Element::kMantissa;
  bool operator==(const ValueType&) const = default;
};

struct OpTraits {
  bool view = false;            // the output is the input under another shape; no instruction
  bool may_leave_wide = false;  // can leave its result in int32, unrequantised
  bool applies_relu = false;    // a ReLU that is its only reader acts on its wide result
  bool is_relu = false;
  // A ReLU whose input's producer stops the gradients that it would have stopped: its backward pass
  // is no instruction.
  bool leaves_mask_to_producer = false;
  bool reads_pixels = false;        // reads bytes of the batch, which no other op does
  bool weights_read_input = false;  // backward_weights reads the inputs
  // A layer: backward_weights reads the gradient as wide as it comes, backward_input reads and
  // writes g bits. Between two layers gradients have gw (BlockFloat [0115]-[0123], [0128]).
  bool is_layer = false;
  bool input_reads_input = false;  // backward_input reads the inputs
  // Saves something, and where both are wanted backward_input finds the workspace as
  // backward_weights left it.
  bool leaves_workspace = false;
  bool reads_output = false;  // backward reads the output
  bool reads_output_if_relu = false;
  bool shares_grad_inputs = false;  // all inputs receive one and the same gradient
  bool guards_input = false;        // takes per-channel exponents of its input
  bool keeps_exponent = false;      // passes mantissas on: nothing is clipped
  // Writes mantissas of its attribute `bits`, and without `signed` one more for the sign, at its
  // attribute `exponent`, in any format.
  bool has_own_grid = false;
  bool narrows_gradient = false;  // rounds the gradient all the same, being a sum
  bool never_negative = false;    // no result is negative
  bool keeps_sign = false;        // no result is negative where no input is
  bool clips_negatives = false;   // takes negative inputs for zero, their gradients too
  int clips_above = 0;            // takes larger inputs for this, their gradients too; 0: none
  bool passes_gradients = false;  // backward_input passes mantissas on: nothing is rounded
  bool takes_rows = false;        // of values whose rows have exponents of their own
  // A row of the result, along the last axis, needs the same rows of the inputs and no others.
  bool row_by_row = false;
  // An update that reads sums as ops/gradient_rows.h has them, and writes nothing over them.
  bool takes_gradient_rows = false;
};

// How wide the exact sums of a micro-batch are that an op writes as the gradient of its first
// parameter: int32 where all that shapes allow fit, and where backward_weights finds that those
// of its operands do.
enum class SumWidth : uint8_t { kInt64, kInt32, kMeasured };

// The functions of an op in one arithmetic. Members that may be null say what that means in Op.
struct OpFunctions {
  OpMemory (*memory)(const OpShapes&, const PlanningContext&) = nullptr;
  Status (*check)(const OpShapes&) = nullptr;
  Prepared (*prepare)(Phase, const OpContext&) = nullptr;
  void (*forward)(const OpContext&) = nullptr;
  void (*backward_input)(const OpContext&) = nullptr;
  void (*backward_weights)(const OpContext&) = nullptr;
  void (*update_statistics)(const OpContext&) = nullptr;
  const char* (*kernel)(const OpContext&) = nullptr;
  // Whether backward_weights writes the first parameter's gradient where it does not add to it.
  // All other gradients are zero when the first micro-batch comes.
  bool writes_first_gradient = false;
  // The width of the sums there; null: int64.
  SumWidth (*sum_width)(const OpShapes&) = nullptr;
};

// Whether backward_input rounds what it writes; else gradients go out as wide as they come in.
constexpr bool rounds_gradient(const OpTraits& traits) {
  return traits.narrows_gradient ||
         !(traits.keeps_exponent || traits.passes_gradients || traits.shares_grad_inputs);
}

struct Op {
  const char* name = "";
  OpTraits traits = {};

  AttributeSchema attributes = {};
  // The attributes that its functions read in OpShapes and OpContext: real numbers as the whole
  // ones of the arithmetic. Null: the attributes of the node.
  Attributes (*lower)(const Attributes&) = nullptr;
  // Shape of one example of the output, or why the inputs do not fit.
  Result<Shape> (*infer_shape)(const Attributes&, std::span<const Shape> inputs) = nullptr;
  // In its place where there are several outputs, or others than mantissas.
  Result<std::vector<ValueType>> (*infer_outputs)(const Attributes&,
                                                  std::span<const Shape> inputs) = nullptr;
  // In place of both, for rows that are made while the program runs and know more than an Op.
  Result<std::vector<ValueType>> (*infer_own)(const Op&, const Attributes&,
                                              std::span<const Shape> inputs) = nullptr;
  // The elements of the inputs. Inputs beyond these are mantissas.
  std::span<const Element> input_elements = {};
  // Their names are what follows the node's name and a point. Null: no parameters.
  std::vector<Parameter> (*parameters)(const Attributes&, std::span<const Shape> inputs) = nullptr;
  // Null: none.
  OpMemory (*memory)(const OpShapes&, const PlanningContext&) = nullptr;
  // Multiply-adds of the forward pass; null: negligible.
  int64_t (*multiply_adds)(const OpShapes&) = nullptr;
  // Preconditions of the kernels that shapes decide (longest exact sum ...); null: none.
  Status (*check)(const OpShapes&) = nullptr;

  // Makes OpContext::prepared for an instruction, once, with the executor: the context is the
  // step's, but nothing has been computed and the caller's batch is not there. Null: nothing.
  Prepared (*prepare)(Phase, const OpContext&) = nullptr;
  void (*forward)(const OpContext&) = nullptr;
  // Null: nothing flows back.
  void (*backward_input)(const OpContext&) = nullptr;
  // Null: no trained parameters. Runs before backward_input of a node that saves something; else
  // either comes first.
  void (*backward_weights)(const OpContext&) = nullptr;
  // At the end of a step, over the statistics of all micro-batches in order; null: none.
  void (*update_statistics)(const OpContext&) = nullptr;

  // The name of the kernel that does its work, for reports; null: none, or several.
  const char* (*kernel)(const OpContext&) = nullptr;

  // The same as in OpFunctions, which says what they mean.
  bool writes_first_gradient = false;
  SumWidth (*sum_width)(const OpShapes&) = nullptr;
  // Null: only as a whole. In integers only.
  const GradientRows* gradient_rows = nullptr;

  // A loss, whose first output is a real number: what one of LossTotals::loss_q24 is worth, in the
  // unit that people read. 0: it is none.
  double loss_unit = 0;

  // The op that stands for it in the frozen network, with those of its attributes that it has, too;
  // null: itself.
  const Op* frozen = nullptr;

  // The same in fp32; null: the op computes in integers only.
  const OpFunctions* fp32 = nullptr;

  // Its functions in the arithmetic of a format: all null where it has none.
  OpFunctions functions(const Format& format) const {
    if (format.is_float()) return fp32 != nullptr ? *fp32 : OpFunctions{};
    return {.memory = memory,
            .check = check,
            .prepare = prepare,
            .forward = forward,
            .backward_input = backward_input,
            .backward_weights = backward_weights,
            .update_statistics = update_statistics,
            .kernel = kernel,
            .writes_first_gradient = writes_first_gradient,
            .sum_width = sum_width};
  }
};

// The op's outputs for one example. Attributes with defaults may be left out.
Result<std::vector<ValueType>> output_types(const Op& op, const Attributes& attributes,
                                            std::span<const Shape> inputs);
// The shape of the first.
Result<Shape> output_shape(const Op& op, const Attributes& attributes,
                           std::span<const Shape> inputs);

// The attributes that a node's functions read.
inline Attributes lowered(const Op& op, const Attributes& attributes) {
  return op.lower == nullptr ? attributes : op.lower(attributes);
}
inline Attributes lowered(const Node& node) { return lowered(*node.op, node.attributes); }

}  // namespace mantissa
