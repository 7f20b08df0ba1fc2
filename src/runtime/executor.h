// Executes a program on the threads of a pool. Allocates nothing during a step.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "base/system/thread_pool.h"
#include "graph/op.h"
#include "kernels/kernel_table.h"
#include "plan/programs/program.h"
#include "plan/stages/stages.h"
#include "runtime/memory.h"
#include "runtime/observation.h"
#include "runtime/state.h"

namespace mantissa {

struct Slots;

// Totals of one step, over its micro-batches.
struct StepResult {
  std::array<LossTotals, kMostLosses> losses = {};  // as in the graph
  std::array<double, kMostLosses> loss_units = {};  // of LossTotals::loss_q24
  int64_t examples = 0;
  // take_means computes these from the sums: the weighted means of the rows that count, in the
  // losses' units (nats), all losses together; and the fraction of rows with the right class.
  double loss = 0;
  double accuracy = 0;  // of the first loss
  // The first loss and its correct rows as if all rows counted and had the mean. For sums over
  // steps that count different numbers of rows.
  int64_t correct = 0;
  int64_t loss_q24 = 0;
  int64_t saturated = 0;               // mantissas clipped
  int64_t requantised = 0;             // mantissas written by instructions that round
  int64_t guard_violations = 0;        // batch norms with a channel narrower than one unit
  int64_t norm_channels_left_out = 0;  // StepTotals
  // Gradients redone because they outgrew their predicted exponent; in dynamic fixed point,
  // instructions run again in the warm-up.
  int64_t re_executions = 0;
  int64_t mispredictions = 0;  // values redone because their predicted exponent was wrong
  double gradient_norm = 0;    // of the mean gradient before clipping, in programs that clip

  // Adds the counts of another part of the same step's program.
  void add(const StepResult& part);
  void take_means();
};

// Instructions that an executor runs, and the offsets of the program's buffers in its arena.
struct ProgramPart {
  std::vector<int> instructions;
  std::vector<int64_t> offsets;
};

class Executor {
 public:
  // `arena` has at least program.arena_bytes and may be shared by executors that do not run at the
  // same time. The program was planned for `isa`, and for at least as many threads as `pool` has.
  // All references outlive the executor.
  Executor(const Graph& graph, const Program& program, State& state, std::span<std::byte> arena,
           ThreadPool& pool, Isa isa);
  // With other kernels, which take all that the program was planned for.
  Executor(const Graph& graph, const Program& program, State& state, std::span<std::byte> arena,
           ThreadPool& pool, kernels::KernelTable kernels);
  // For a part of the program.
  Executor(const Graph& graph, const Program& program, State& state, std::span<std::byte> arena,
           ThreadPool& pool, Isa isa, ProgramPart part);
  ~Executor();

  // Runs one step on micro_batches * micro_batch_size examples: forward, backward, update. `batch`
  // has the examples of each input of the graph, in its order and its type. Fails if an exponent
  // leaves its range or a scalar is not finite (training diverged). The state must not be used
  // after that.
  Result<StepResult> train_step(std::span<const void* const> batch, const StepScalars& scalars);

  // The same step in pieces, for callers that choose the order themselves (runtime/stages/stage.h).
  // Whether a batch has the inputs that the program reads.
  Status check_batch(std::span<const void* const> batch) const;
  // The batch and the scalars for the next instructions.
  void set_step(std::span<const void* const> batch, const StepScalars& scalars);
  // Starts the counts of a step.
  void begin_counts(int64_t step);
  void run(std::span<const int> instructions, int micro_batch);
  // Ends the step: the counts decide exponents of the next step.
  Result<StepResult> end_step(const StepScalars& scalars);
  // From now on statistics of these instructions lie `shift` bytes after their place.
  void use_update_copy(std::span<const int> instructions, int64_t shift);
  // From now on these instructions, except updates, read a parameter there.
  void use_weights(std::span<const int> instructions, int parameter, std::byte* mantissas,
                   int16_t* exponents);

  // For sending a buffer of the program, with its exponents, to another executor of the same
  // program: its size in bytes, writing the bytes, and reading them there.
  int64_t passed_bytes(const Transfer& transfer) const;
  void pass_on(const Transfer& transfer, std::span<std::byte> passed) const;
  void receive(const Transfer& transfer, std::span<const std::byte> passed);

  // The batch begins with this micro-batch of the step: those before belong to other replicas.
  void set_first_micro_batch(int micro_batch) { first_micro_batch_ = micro_batch; }
  // The address of a buffer in the arena, or this many bytes after it. The contents are from the
  // instruction that ran last.
  std::span<std::byte> buffer(int buffer, int64_t shift = 0) const;
  // Adds the counts of another executor of the same program and step. Between processes they are
  // sent as bytes.
  void add_counts(const Executor& other);
  Status add_counts(std::span<const std::byte> counts);
  std::vector<std::byte> counts() const;

  // From now on stores the number of the running instruction there; null: it does not.
  void set_position(std::atomic<int32_t>* instruction) { position_ = instruction; }

  // Runs the forward pass of one micro-batch. Inputs that nothing in the program reads, such as
  // labels without a loss, may be null or left out at the end.
  // Given values of the program come after the inputs. `position`: of a piece's first row, if
  // sequences are computed piece by piece.
  Result<StepResult> infer(std::span<const void* const> batch, int64_t position = 0);

  // The caches of the examples, program.cache_bytes each, for a program that works in pieces.
  // Programs of the same nodes and positions have the same caches. They outlive the executor;
  // without them infer fails.
  void set_cache(std::span<std::byte> cache);

  // After infer: a result of the network. For a classifier: int32 logits [micro_batch_size,
  // classes].
  Tensor output(int index) const;

  // kCalibrate: from now on wide values of an instruction's output are added to the counts of
  // `histogram`, kHistogramBins, per channel if the output is guarded. Null, as at first: they are
  // not counted. The instruction has an output.
  void set_histogram(int instruction, int64_t* histogram);

  // Per value: exponent and per-channel exponents in use.
  int16_t exponent(int value) const;
  std::span<const int8_t> channel_exponents(int value) const;
  void set_exponents(int value, int16_t exponent, std::span<const int8_t> channel_exponents);

  // From now on `clock` is read before and after each instruction, and the difference added to the
  // instruction's element of `times`, which has one per instruction; empty: nothing is measured.
  void set_profile(std::span<int64_t> times, int64_t (*clock)()) {
    profile_ = times;
    clock_ = clock;
  }

  // From now on the tensors of each step are observed (made for this program; outlives its use);
  // null: none are, which costs nothing. Changes no bit.
  void set_observations(Observations* observations);

  // The context of an instruction's operands, for freezing and for reports.
  const OpContext& context(int instruction) const;

 private:
  Executor(const Graph& graph, const Program& program, State& state, std::span<std::byte> arena,
           ThreadPool& pool, kernels::KernelTable kernels, ProgramPart part);
  void run_stretch(const Stretch& stretch, int micro_batch);
  void run_instruction(int instruction, int micro_batch);
  void compute_again(int instruction);
  std::span<int8_t> channels_of(int row) const;
  void commit();

  const Program& program_;
  State& state_;
  std::span<std::byte> arena_;
  std::vector<int64_t> offsets_;  // by buffer of the program
  kernels::KernelTable kernels_;
  std::unique_ptr<Slots> slots_;
  std::span<int64_t> profile_;
  int64_t (*clock_)() = nullptr;
  Observations* observations_ = nullptr;
  int first_micro_batch_ = 0;
  int64_t cache_bytes_ = 0;
  std::atomic<int32_t>* position_ = nullptr;
};

}  // namespace mantissa
