#include "runtime/observation.h"

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <numeric>

#include "kernels/common/parallel_ranges.h"
#include "numerics/rounding.h"
#include "ops/gradient_rows.h"

namespace mantissa {
namespace {

constexpr int64_t kObservedPerThread = 32768;

int length_of(std::integral auto mantissa) { return bit_length(magnitude(mantissa)); }

// From the bits: 2^(e-1) <= |value| < 2^e for the biased exponent e + 126; 0 for zeros and
// denormals, 255 for values that are not finite.
int length_of(float value) {
  const auto biased = static_cast<int>(std::bit_cast<uint32_t>(value) >> 23 & 0xff);
  constexpr int kMost = static_cast<int>(std::tuple_size_v<decltype(BitLengths::by_length)>) - 1;
  return std::clamp(biased - 126 - kFloatExponent, 0, kMost);
}

// Counts `count` elements by their lengths: element i has length(i) bits.
template <typename Length>
BitLengths count_lengths(int64_t count, ThreadPool& pool, const Length& length) {
  std::array<BitLengths, kernels::kMaximumParts> partial;
  const int64_t parts = kernels::parallel_ranges(
      pool, count, kObservedPerThread, [&](int64_t begin, int64_t end, int64_t part) {
        BitLengths counts;
        for (int64_t i = begin; i < end; ++i) ++counts.by_length[static_cast<size_t>(length(i))];
        partial[part] = counts;
      });
  BitLengths total;
  for (int64_t part = 0; part < parts; ++part) total += partial[part];
  return total;
}

template <typename T>
BitLengths count_lengths(const Tensor& tensor, ThreadPool& pool) {
  const T* data = tensor.as<T>();
  return count_lengths(tensor.count(), pool, [&](int64_t i) { return length_of(data[i]); });
}

}  // namespace

BitLengths count_lengths(const Tensor& tensor, ThreadPool& pool) {
  switch (tensor.type) {
    case DataType::kInt8:
      return count_lengths<int8_t>(tensor, pool);
    case DataType::kInt16:
      return count_lengths<int16_t>(tensor, pool);
    case DataType::kInt32:
      return count_lengths<int32_t>(tensor, pool);
    case DataType::kFloat:
      return count_lengths<float>(tensor, pool);
    default:
      return {};
  }
}

namespace {

// The same for a parameter's sums as the update reads them, at the exponent fixed for the step.
BitLengths count_sums(const OpContext& context) {
  const ParameterView& parameter = context.parameters[0];
  if (parameter.gradient.type == DataType::kFloat) {
    return count_lengths(parameter.gradient, *context.kernel.pool);
  }
  const auto count = [&](const auto* sums, int64_t begin, int64_t end) {
    const int shift = *parameter.fixed_exponent - *parameter.gradient.exponent;
    BitLengths counts;
    for (int64_t i = begin; i < end; ++i) {
      ++counts.by_length[static_cast<size_t>(length_of(rescale_rne(sums[i], shift)))];
    }
    return counts;
  };
  return ops::over_gradient<BitLengths>(
      context, parameter,
      [&](const kernels::GradientSums& read, int64_t begin, int64_t end) {
        return read.bits == 32 ? count(read.as<int32_t>(), begin, end)
                               : count(read.as<int64_t>(), begin, end);
      },
      [](BitLengths a, const BitLengths& b) { return a += b; });
}

// Calls `found(kind, operand)` for each tensor that the instruction writes and that is observed.
template <typename Found>
void written_tensors(const Instruction& instruction, Found&& found) {
  if (instruction.again) return;
  const auto is_tensor = [](const Operand& operand) {
    return operand.in_arena() && writes(operand.access) && operand.exponent >= 0;
  };
  const auto outputs = instruction.outputs(), gradients = instruction.grad_inputs();
  for (int i = 0; i < std::ssize(outputs); ++i) {
    if (is_tensor(outputs[i])) found(ObservedKind::kValue, i);
  }
  int previous = -1;  // inputs may share one gradient
  for (int i = 0; i < std::ssize(gradients); ++i) {
    if (!is_tensor(gradients[i]) || gradients[i].index == previous) continue;
    previous = gradients[i].index;
    found(ObservedKind::kGradient, i);
  }
  if (updates_parameter(instruction)) {
    found(ObservedKind::kParameterGradient, 0);
    found(ObservedKind::kParameter, 0);
  }
}

const Tensor& tensor_of(const TensorObservation& seen, const OpContext& context) {
  switch (seen.kind) {
    case ObservedKind::kGradient:
      return context.grad_inputs[seen.operand];
    case ObservedKind::kParameter:
      return context.parameters[0].mantissa;
    default:
      return context.outputs[seen.operand];
  }
}

}  // namespace

BitLengths& BitLengths::operator+=(const BitLengths& other) {
  for (size_t n = 0; n < by_length.size(); ++n) by_length[n] += other.by_length[n];
  return *this;
}

int64_t BitLengths::elements() const {
  return std::accumulate(by_length.begin(), by_length.end(), int64_t{0});
}

int64_t BitLengths::sum() const {
  int64_t total = 0;
  for (size_t n = 0; n < by_length.size(); ++n) total += static_cast<int64_t>(n) * by_length[n];
  return total;
}

int BitLengths::largest() const {
  for (size_t n = by_length.size() - 1; n > 0; --n) {
    if (by_length[n] != 0) return static_cast<int>(n);
  }
  return 0;
}

Observations::Observations(const Program& program) {
  tensors_.reserve(static_cast<size_t>(predict_bytes(program)) / sizeof(TensorObservation));
  first_.reserve(program.instructions.size() + 1);
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    first_.push_back(static_cast<int>(tensors_.size()));
    written_tensors(program.instructions[i], [&](ObservedKind kind, int operand) {
      tensors_.push_back({.kind = kind, .instruction = i, .operand = operand});
    });
  }
  first_.push_back(static_cast<int>(tensors_.size()));
}

int64_t Observations::predict_bytes(const Program& program) {
  int64_t count = 0;
  for (const Instruction& instruction : program.instructions) {
    written_tensors(instruction, [&](ObservedKind, int) { ++count; });
  }
  return count * int64_t{sizeof(TensorObservation)} +
         static_cast<int64_t>((program.instructions.size() + 1) * sizeof(int));
}

std::span<TensorObservation> Observations::of(int instruction) {
  return std::span(tensors_).subspan(
      static_cast<size_t>(first_[instruction]),
      static_cast<size_t>(first_[instruction + 1] - first_[instruction]));
}

void Observations::take(const Observations& others, std::span<const int> instructions) {
  for (const int i : instructions) {
    for (int t = first_[i]; t < first_[i + 1]; ++t) tensors_[t] = others.tensors_[t];
  }
}

void Observations::start_step() {
  for (TensorObservation& seen : tensors_) {
    seen = {.kind = seen.kind, .instruction = seen.instruction, .operand = seen.operand};
  }
}

void Observations::before(int instruction, const OpContext& context, int64_t saturated) {
  saturated_ = saturated;
  re_executions_ = context.step.totals->re_executions;
  mispredictions_ = context.step.totals->mispredictions;
  const auto written = of(instruction);
  // An update leaves the exponent of the next step there, and may leave the direction.
  if (!written.empty() && written[0].kind == ObservedKind::kParameterGradient) {
    const ParameterView& parameter = context.parameters[0];
    written[0].bits += count_sums(context);
    const bool is_float = parameter.gradient.type == DataType::kFloat;
    written[0].exponent = is_float ? kFloatExponent : *parameter.fixed_exponent;
  }
}

void Observations::after(int instruction, const OpContext& context, int64_t saturated) {
  for (TensorObservation& seen : of(instruction)) {
    // The parameter's own row counts the clipping and repetitions of the update.
    if (seen.kind == ObservedKind::kParameterGradient) continue;
    const Tensor& tensor = tensor_of(seen, context);
    seen.bits += count_lengths(tensor, *context.kernel.pool);
    if (tensor.type == DataType::kFloat) {
      seen.exponent = kFloatExponent;
    } else if (tensor.exponent != nullptr) {
      seen.exponent = tensor.largest_exponent();
    }
    seen.saturated += saturated - saturated_;
    seen.re_executions += context.step.totals->re_executions - re_executions_;
    seen.mispredictions += context.step.totals->mispredictions - mispredictions_;
  }
}

}  // namespace mantissa
