#include "runtime/executor.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/common/row_weights.h"
#include "numerics/exponent.h"
#include "numerics/rounding.h"
#include "runtime/slots.h"

namespace mantissa {
namespace {

ProgramPart all_of(const Program& program) {
  ProgramPart all;
  all.instructions.resize(program.instructions.size());
  std::iota(all.instructions.begin(), all.instructions.end(), 0);
  for (const Buffer& buffer : program.buffers) all.offsets.push_back(buffer.offset);
  return all;
}

}  // namespace

Executor::Executor(const Graph& graph, const Program& program, State& state,
                   std::span<std::byte> arena, ThreadPool& pool, Isa isa)
    : Executor(graph, program, state, arena, pool, kernels::select_kernels(isa)) {}

Executor::Executor(const Graph& graph, const Program& program, State& state,
                   std::span<std::byte> arena, ThreadPool& pool, kernels::KernelTable kernels)
    : Executor(graph, program, state, arena, pool, std::move(kernels), all_of(program)) {}

Executor::Executor(const Graph& graph, const Program& program, State& state,
                   std::span<std::byte> arena, ThreadPool& pool, Isa isa, ProgramPart part)
    : Executor(graph, program, state, arena, pool, kernels::select_kernels(isa), std::move(part)) {}

Executor::Executor(const Graph& graph, const Program& program, State& state,
                   std::span<std::byte> arena, ThreadPool& pool, kernels::KernelTable kernels,
                   ProgramPart part)
    : program_(program),
      state_(state),
      arena_(arena),
      offsets_(std::move(part.offsets)),
      kernels_(std::move(kernels)),
      slots_(std::make_unique<Slots>()) {
  allocate_slots(graph, program, state, *slots_);
  resolve_operands(graph, program, state, {arena, offsets_}, pool, kernels_, part.instructions,
                   *slots_);
}

Executor::~Executor() = default;

namespace {

// Inputs of a micro-batch stay in the memory of the step's caller.
void bind_batch(const Slots& slots, const Instruction& instruction, int micro_batch,
                ResolvedInstruction& resolved) {
  for (size_t k = 0; k < resolved.inputs.size(); ++k) {
    Tensor& input = resolved.inputs[k];
    const Operand& operand = instruction.inputs()[k];
    if (operand.space != Operand::Space::kInput) continue;
    const int64_t bytes = input.count() * element_bytes(input.type);
    input.data = const_cast<std::byte*>(slots.batch[operand.index]) + micro_batch * bytes;
  }
}

void clear_gradients(const OpRow& row, const ResolvedInstruction& resolved) {
  for (size_t k = row.writes_first_gradient ? 1 : 0; k < resolved.parameters.size(); ++k) {
    const Tensor& gradient = resolved.parameters[k].gradient;
    if (gradient.empty()) continue;
    std::memset(gradient.data, 0,
                static_cast<size_t>(gradient.count() * element_bytes(gradient.type)));
  }
}

}  // namespace

// An instruction that runs again was counted before. Losses are not computed again.
void Executor::compute_again(int i) {
  Slots& s = *slots_;
  const StepTotals before = s.totals;
  const ResolvedInstruction& resolved = s.instructions[i];
  program_.instructions[i].row->run(resolved.context);
  const bool kernel_failed = s.totals.kernel_failed;
  s.totals = before;
  s.totals.kernel_failed |= kernel_failed;
  s.saturated[i] = 0;
}

void Executor::run_instruction(int i, int micro_batch) {
  Slots& s = *slots_;
  const Instruction& instruction = program_.instructions[i];
  ResolvedInstruction& resolved = s.instructions[i];
  resolved.context.step.micro_batch = micro_batch;
  bind_batch(s, instruction, micro_batch - first_micro_batch_, resolved);
  const bool begins = instruction.first(Role::kSum).access == Access::kAccumulates;
  if (begins && micro_batch == 0) clear_gradients(*instruction.row, resolved);
  if (observations_ != nullptr) observations_->before(i, resolved.context, s.saturated[i]);
  if (instruction.again) {
    compute_again(i);
  } else {
    instruction.row->run(resolved.context);
  }
  if (observations_ != nullptr) observations_->after(i, resolved.context, s.saturated[i]);
  s.requantised += resolved.narrowed;
}

void Executor::run(std::span<const int> instructions, int micro_batch) {
  for (const int i : instructions) {
    const int64_t start = profile_.empty() ? 0 : clock_();
    if (position_ != nullptr) position_->store(i, std::memory_order_relaxed);
    run_instruction(i, micro_batch);
    if (!profile_.empty()) profile_[i] += clock_() - start;
  }
}

void Executor::run_stretch(const Stretch& stretch, int micro_batch) {
  for (const int segment : stretch.segments) {
    run(program_.segments[segment].instructions, micro_batch);
  }
}

void Executor::set_observations(Observations* observations) { observations_ = observations; }

// The exponents that this step measured are the predictors of the next.
void Executor::commit() {
  Slots& s = *slots_;
  const StateLayout& layout = state_.layout();
  if (!layout.has_exponents()) return;
  if (program_.options.exponents == ExponentMode::kDecided) {
    s.decided.commit(program_.options.format, s.scalars.step + 1, s.predictors, state_);
  } else if (layout.predictors >= 0) {
    int16_t* const predicted = state_.data<int16_t>(layout.predictors);
    for (const int slot : s.predictors) predicted[slot] = s.measured[slot];
  }
  uint8_t* guards = state_.data<uint8_t>(layout.guards);
  for (const int value : s.guarded_values) {
    const int slot = layout.slots.of_value[value];
    if (slot >= 0) guards[slot] |= s.violated[value];
  }
}

namespace {

void set_batch(std::span<const void* const> batch, Slots& slots) {
  for (size_t i = 0; i < slots.batch.size(); ++i) {
    slots.batch[i] = i < batch.size() ? static_cast<const std::byte*>(batch[i]) : nullptr;
  }
}

StepResult result_of(const Slots& slots, int64_t examples) {
  StepResult result;
  result.examples = examples;
  result.losses = slots.losses;
  std::ranges::copy(slots.loss_units, result.loss_units.begin());
  result.take_means();
  return result;
}

// n * all / part, to nearest even: n itself if part is all.
int64_t extrapolated(int64_t n, int64_t all, int64_t part) {
  return n == 0 || part == all ? n : divide_rne(__int128{n} * all, part);
}

}  // namespace

void StepResult::take_means() {
  loss = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    if (losses[i].weight_q10 == 0) continue;
    const double weight = static_cast<double>(losses[i].weight_q10) * 0x1p-10;
    loss += static_cast<double>(losses[i].loss_q24) * loss_units[i] / weight;
  }
  const LossTotals& first = losses[0];
  accuracy =
      static_cast<double>(first.correct) / static_cast<double>(std::max<int64_t>(1, first.counted));
  correct = extrapolated(first.correct, first.rows, first.counted);
  loss_q24 = extrapolated(first.loss_q24, first.rows << kernels::kRowWeightBits, first.weight_q10);
}

void StepResult::add(const StepResult& part) {
  examples = part.examples;
  loss_units = part.loss_units;
  for (size_t i = 0; i < losses.size(); ++i) losses[i] += part.losses[i];
  take_means();
  saturated += part.saturated;
  requantised += part.requantised;
  guard_violations += part.guard_violations;
  norm_channels_left_out += part.norm_channels_left_out;
  re_executions += part.re_executions;
  mispredictions += part.mispredictions;
}

Status Executor::check_batch(std::span<const void* const> batch) const {
  for (size_t i = 0; i < slots_->read_inputs.size(); ++i) {
    const std::string& name = slots_->read_inputs[i];
    if (name.empty() || (i < batch.size() && batch[i] != nullptr)) continue;
    return invalid_input("the network wants '" + name + "', which the batch lacks");
  }
  return {};
}

void Executor::set_step(std::span<const void* const> batch, const StepScalars& scalars) {
  slots_->scalars = scalars;
  set_batch(batch, *slots_);
}

void Executor::begin_counts(int64_t step) {
  clear_counts(program_, step, *slots_);
  if (observations_ != nullptr) observations_->start_step();
}

Result<StepResult> Executor::end_step(const StepScalars& scalars) {
  Slots& s = *slots_;
  s.scalars = scalars;
  if (s.totals.kernel_failed) return failed("oneDNN failed: out of memory?");
  if (s.totals.exponent_overflow || s.totals.gradient_overflow) {
    return failed(std::string("training diverged: ") +
                  (s.totals.gradient_overflow        ? "a weight gradient outgrew its accumulator"
                   : state_.layout().has_exponents() ? "an exponent left -128..127"
                                                     : "the loss is not finite") +
                  "; start anew (another --out, or --overwrite) with a smaller learning rate");
  }
  commit();
  StepResult result =
      result_of(s, program_.options.micro_batches * program_.options.micro_batch_size);
  for (const int64_t count : s.saturated) result.saturated += count;
  result.requantised = s.requantised;
  result.re_executions = s.totals.re_executions;
  result.mispredictions = s.totals.mispredictions;
  result.guard_violations = s.totals.guard_violations;
  result.norm_channels_left_out = s.totals.norm_channels_left_out;
  result.gradient_norm = s.totals.gradient_norm;
  return result;
}

Result<StepResult> Executor::train_step(std::span<const void* const> batch,
                                        const StepScalars& scalars) {
  MANTISSA_RETURN_IF_ERROR(check_batch(batch));
  set_step(batch, scalars);
  begin_counts(scalars.step);
  for (const Stretch& stretch : program_.schedule) {
    const int times = stretch.every_micro_batch ? program_.options.micro_batches : 1;
    for (int m = 0; m < times; ++m) run_stretch(stretch, m);
  }
  return end_step(scalars);
}

void Executor::use_update_copy(std::span<const int> instructions, int64_t shift) {
  for (const int i : instructions) {
    OpContext& context = slots_->instructions[i].context;
    const Operand& statistics = program_.instructions[i].first(Role::kStatistics);
    if (statistics.exists()) {
      context.memory.statistics = arena_.data() + offsets_[statistics.index] + shift;
    }
  }
}

void Executor::use_weights(std::span<const int> instructions, int parameter, std::byte* mantissas,
                           int16_t* exponents) {
  for (const int i : instructions) {
    if (kind_of(program_.instructions[i]) == SegmentKind::kUpdate) continue;
    for (ParameterView& view : slots_->instructions[i].parameters) {
      if (view.index != parameter) continue;
      view.mantissa.data = mantissas;
      if (view.mantissa.exponent != nullptr) view.mantissa.exponent = exponents;
    }
  }
}

namespace {

// Copies to one end of a message and continues after it, or from there.
struct Writer {
  std::span<std::byte> rest;
  void copy(const void* from, size_t bytes) {
    std::memcpy(rest.data(), from, bytes);
    rest = rest.subspan(bytes);
  }
};
struct Reader {
  std::span<const std::byte> rest;
  void copy(void* to, size_t bytes) {
    std::memcpy(to, rest.data(), bytes);
    rest = rest.subspan(bytes);
  }
};

}  // namespace

int64_t Executor::passed_bytes(const Transfer& transfer) const {
  int64_t bytes = program_.buffers[transfer.buffer].bytes;
  for (const int row : transfer.exponents) {
    bytes += static_cast<int64_t>(sizeof(int16_t) + channels_of(row).size());
  }
  return bytes;
}

void Executor::pass_on(const Transfer& transfer, std::span<std::byte> passed) const {
  Writer writer{passed};
  const std::span<const std::byte> values = buffer(transfer.buffer);
  writer.copy(values.data(), values.size());
  for (const int row : transfer.exponents) {
    writer.copy(&slots_->exponents[row], sizeof(int16_t));
    writer.copy(channels_of(row).data(), channels_of(row).size());
  }
}

void Executor::receive(const Transfer& transfer, std::span<const std::byte> passed) {
  Reader reader{passed};
  const std::span<std::byte> values = buffer(transfer.buffer);
  reader.copy(values.data(), values.size());
  for (const int row : transfer.exponents) {
    reader.copy(&slots_->exponents[row], sizeof(int16_t));
    reader.copy(channels_of(row).data(), channels_of(row).size());
  }
}

std::span<std::byte> Executor::buffer(int buffer, int64_t shift) const {
  return arena_.subspan(static_cast<size_t>(offsets_[buffer] + shift),
                        static_cast<size_t>(program_.buffers[buffer].bytes));
}

std::vector<std::byte> Executor::counts() const { return write_counts(*slots_); }

void Executor::add_counts(const Executor& other) { mantissa::add_counts(*other.slots_, *slots_); }

Status Executor::add_counts(std::span<const std::byte> counts) {
  return read_counts(counts, *slots_);
}

// The channels' exponents of a row of the table, if the row belongs to a guarded value.
std::span<int8_t> Executor::channels_of(int row) const {
  const bool is_value = program_.exponents[row].owner == ExponentOwner::kValue;
  return is_value ? std::span(slots_->channel_exponents[row]) : std::span<int8_t>();
}

void Executor::set_cache(std::span<std::byte> cache) {
  cache_bytes_ = std::ssize(cache);
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Operand& part = program_.instructions[i].first(Role::kCache);
    if (!part.exists()) continue;
    slots_->instructions[i].context.memory.cache = {cache.data() + program_.caches[part.index],
                                                    program_.cache_bytes,
                                                    program_.options.cached_positions};
  }
}

Result<StepResult> Executor::infer(std::span<const void* const> batch, int64_t position) {
  Slots& s = *slots_;
  MANTISSA_RETURN_IF_ERROR(check_batch(batch));
  if (program_.cache_bytes * program_.options.micro_batch_size > cache_bytes_) {
    return failed("a program for pieces of sequences has no cache for all of its examples");
  }
  set_batch(batch, s);
  s.scalars.position = position;
  s.totals = {};
  s.losses = {};
  std::fill(s.saturated.begin(), s.saturated.end(), 0);
  for (const Stretch& stretch : program_.schedule) run_stretch(stretch, 0);
  if (s.totals.kernel_failed) return failed("oneDNN failed: out of memory?");
  if (s.totals.exponent_overflow) {
    return invalid_input(state_.layout().has_exponents()
                             ? "the network's exponents leave -128..127: it is damaged or diverged"
                             : "the loss is not finite: the network is damaged or diverged");
  }
  return result_of(s, program_.options.micro_batch_size);
}

Tensor Executor::output(int index) const {
  const Operand& operand = program_.outputs[index];
  Tensor tensor;
  if (!operand.in_arena()) return tensor;
  tensor.type = operand.type;
  tensor.shape = operand.shape;
  tensor.data = arena_.data() + offsets_[operand.index];
  tensor.bits = program_.exponents[operand.exponent].bits;
  tensor.exponent = &slots_->exponents[operand.exponent];
  if (operand.row_exponents >= 0) {
    tensor.row_exponents =
        reinterpret_cast<int16_t*>(static_cast<std::byte*>(tensor.data) + operand.row_exponents);
  }
  return tensor;
}

void Executor::set_histogram(int instruction, int64_t* histogram) {
  slots_->instructions[instruction].outputs[0].histogram = histogram;
}

int16_t Executor::exponent(int value) const { return slots_->exponents[value]; }

std::span<const int8_t> Executor::channel_exponents(int value) const {
  return slots_->channel_exponents[value];
}

void Executor::set_exponents(int value, int16_t exponent,
                             std::span<const int8_t> channel_exponents) {
  slots_->exponents[value] = exponent;
  std::copy(channel_exponents.begin(), channel_exponents.end(),
            slots_->channel_exponents[value].begin());
}

const OpContext& Executor::context(int instruction) const {
  return slots_->instructions[instruction].context;
}

}  // namespace mantissa
