// Observes the tensors of a step: their exponents, and how they use their bits. Gathered while the
// step runs, since the arena keeps no tensor longer than needed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/op.h"
#include "plan/programs/program.h"

namespace mantissa {

enum class ObservedKind : uint8_t { kValue, kGradient, kParameter, kParameterGradient };

// Replaces the exponent if tensors are floats: they are observed as mantissas of this unit.
constexpr int kFloatExponent = -40;

// Counts mantissas by bit length. by_length[n]: 2^(n-1) <= |mantissa| < 2^n. by_length[0]: zeros.
// The last one also counts larger mantissas. Histograms of parts add.
struct BitLengths {
  std::array<int64_t, 64> by_length{};

  BitLengths& operator+=(const BitLengths& other);
  int64_t elements() const;
  int64_t sum() const;  // of the lengths, over the elements
  int largest() const;  // 0 if there is nothing but zeros
};

// Counts a tensor's mantissas by length, or floats as mantissas of 2^kFloatExponent.
BitLengths count_lengths(const Tensor& tensor, ThreadPool& pool);

// A tensor that an instruction wrote, over all micro-batches of a step.
struct TensorObservation {
  ObservedKind kind = ObservedKind::kValue;
  int instruction = -1;  // that wrote the tensor
  int operand = 0;       // kValue, kGradient: index in its outputs, or its grad_inputs
  // In the last micro-batch; if channels have exponents of their own, the largest of them.
  int exponent = 0;
  BitLengths bits = {};
  int64_t saturated = 0;      // mantissas that the instruction clipped
  int64_t re_executions = 0;  // by the instruction: see StepTotals
  int64_t mispredictions = 0;
};

// The tensors that a program's instructions write: values, their gradients, parameters after the
// update, and, before it, the sums of parameters' gradients. Allocates nothing after it was made.
class Observations {
 public:
  explicit Observations(const Program& program);

  // Bytes that it will hold for a program.
  static int64_t predict_bytes(const Program& program);

  // Call it at the start of a step, and around each of its instructions.
  void start_step();
  void before(int instruction, const OpContext& context, int64_t saturated);
  void after(int instruction, const OpContext& context, int64_t saturated);

  // Takes the tensors of these instructions from others of the same program and step.
  void take(const Observations& others, std::span<const int> instructions);

  // In the order of the program.
  std::span<const TensorObservation> tensors() const { return tensors_; }

 private:
  std::span<TensorObservation> of(int instruction);

  std::vector<TensorObservation> tensors_;
  std::vector<int> first_;  // per instruction, and one more: its first tensor
  // Values before the instruction.
  int64_t saturated_ = 0, re_executions_ = 0, mispredictions_ = 0;
};

}  // namespace mantissa
