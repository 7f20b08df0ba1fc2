#include "measure/benchmark.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/system/memory_limit.h"
#include "data/batches/ordered_batches.h"
#include "data/batches/shuffled_batches.h"
#include "data/synthetic.h"
#include "infer/programs.h"
#include "kernels/kernel_table.h"
#include "measure/benchmark_clock.h"
#include "measure/benchmark_rows.h"
#include "measure/program_times.h"
#include "run/plan/run_plan.h"
#include "run/plan/steps.h"
#include "run/settings/starting_point.h"
#include "runtime/named_parameters.h"

namespace mantissa {
namespace {

int64_t nanoseconds(double seconds) { return std::llround(1e9 * seconds); }

// The first batch, again and again.
class SameBatch final : public BatchSource {
 public:
  explicit SameBatch(OrderedBatches batches)
      : batches_(std::move(batches)), batch_(batches_.next()) {}
  Batch next() override { return batch_; }

 private:
  OrderedBatches batches_;
  Batch batch_;
};

// A fraction of the model's learning rate. Only the time of a step matters here, and training on
// noise must not make it diverge.
constexpr double kRateFactor = 0.1;

// A network that is being measured.
class Measurement {
 public:
  Measurement(const BenchmarkConfig& config, const TrainObserver& observer)
      : config_(config), observer_(observer), pool_(config.run.threads) {}

  Result<Benchmark> run() {
    const kernels::KernelTable table = kernels::select_kernels(config_.run.isa);
    MANTISSA_RETURN_IF_ERROR(check_threads(pool_));
    Benchmark result;
    MANTISSA_RETURN_IF_ERROR(measure_machine(table, pool_, result));
    release_free_memory();  // of the peaks' buffers, too
    const int64_t idle_bytes = resident_bytes();
    reset_peak_resident();
    MANTISSA_RETURN_IF_ERROR(prepare());
    release_free_memory();
    MANTISSA_ASSIGN(State state, State::create(plan_.layout));
    MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(plan_.training.arena_bytes));
    MANTISSA_RETURN_IF_ERROR(set_weights(state));
    release_free_memory();  // of parameters that were read
    Programs programs(plan_.graph, state, {pool_, arena.span(), config_.run.isa});
    ProgramTimes times(plan_.training, programs.add(plan_.training));
    MANTISSA_RETURN_IF_ERROR(measure(programs, times));
    report(times, result);
    result.measured_peak_bytes = std::max<int64_t>(0, peak_resident_bytes() - idle_bytes);
    return result;
  }

 private:
  // Random weights, or those of the start.
  Status set_weights(State& state) const {
    const RunConfig& run = config_.run;
    if (!run.start) {
      initialise(plan_.graph, run.format, run.seed, state);
      return {};
    }
    initialise(plan_.graph, run.format, run.seed, state,
               taken_parameters(plan_.graph, run.start->parameters));
    MANTISSA_ASSIGN(const TrainedFile trained, reread(*run.start, Reading::kByParameter));
    MANTISSA_RETURN_IF_ERROR(take_trained(plan_.graph, run.format, trained, state));
    tell_message(observer_, to_string(plan_.taken, trained.source));
    return {};
  }

  bool synthetic() const { return config_.run.data == kSyntheticData; }

  Result<DatasetInfo> inspect() const {
    const RunConfig& run = config_.run;
    if (!synthetic()) return inspect_dataset(run.data, data_options(run));
    if (run.sequence == 0) {
      return synthetic_info(config_.height, config_.width, config_.channels, config_.classes,
                            run.batch_size);
    }
    return synthetic_text_info(text_options(run).task, run.sequence, config_.classes,
                               run.batch_size);
  }

  // Data, plan and graph.
  Status prepare() {
    MANTISSA_ASSIGN(const DatasetInfo info, inspect());
    MANTISSA_ASSIGN(plan_, plan_run(config_.run, info));
    MANTISSA_RETURN_IF_ERROR(check_budget(plan_.memory, config_.run.memory_budget));
    tell_message(observer_, limit_warning(plan_.memory, resident_bytes(), memory_limit()));
    if (synthetic()) {
      examples_ = synthetic_examples(info, config_.run.seed);
      MANTISSA_RETURN_IF_ERROR(make_noise(examples_of(examples_)));
    } else {
      MANTISSA_ASSIGN(Dataset data,
                      load_dataset(config_.run.data, true, false, data_options(config_.run)));
      MANTISSA_RETURN_IF_ERROR(check_unchanged(info, data.info));
      examples_ = std::move(data.train);
      MANTISSA_RETURN_IF_ERROR(start_loading());
    }
    return set_channel_means(config_.run, channel_means(examples_), plan_);
  }

  // All examples are one batch.
  Status make_noise(const Examples& examples) {
    MANTISSA_ASSIGN(OrderedBatches batches, OrderedBatches::create(examples, examples.count));
    source_ = std::make_unique<SameBatch>(std::move(batches));
    return {};
  }

  Status start_loading() {
    const RunConfig& run = config_.run;
    MANTISSA_ASSIGN(auto batches,
                    ShuffledBatches::create(examples_of(examples_, run.augmentation, run.seed),
                                            {.batch_size = run.batch_size,
                                             .seed = run.seed,
                                             .total_steps = config_.warmup_steps + config_.steps}));
    const bool works_ahead = batches->works_ahead();
    source_ = std::move(batches);
    if (works_ahead) return {};
    return failed(
        "nothing was measured: no thread could be started that prepares batches "
        "(is there a limit on processes or memory?)");
  }

  Status measure(Programs& programs, ProgramTimes& times) {
    const int64_t all = config_.warmup_steps + config_.steps;
    // Steps before the measured ones may be of dynamic fixed point's warm-up.
    const auto is_measured = [&](int64_t step) { return step >= config_.warmup_steps; };
    const auto scalars = [&](int64_t step) {
      StepScalars of_step = step_scalars(config_.run);
      of_step.learning_rate = kRateFactor * config_.run.learning_rate;
      of_step.step = step + (is_measured(step) ? config_.run.format.deciding_steps() : 0);
      return of_step;
    };
    const auto before = [&](int64_t) -> Status {
      times.begin();
      return {};
    };
    const auto after = [&](const TakenStep& taken) -> Result<bool> {
      if (is_measured(taken.step)) {
        times.end(nanoseconds(taken.seconds - taken.waiting_seconds));
        wait_ns_.push_back(nanoseconds(taken.waiting_seconds));
        re_executions_ += taken.result.re_executions;
        mispredictions_ += taken.result.mispredictions;
      }
      if (tell_done(observer_, TrainEventKind::kStep, taken.step + 1, all)) return true;
      return make_error(ErrorCode::kInterrupted, "interrupted");
    };
    return take_steps({programs, *source_, scalars, before, after}, 0, all);
  }

  void report(const ProgramTimes& times, Benchmark& result) const {
    times.report(result);
    result.data_wait_us = synthetic() ? 0 : median_us(wait_ns_);
    result.examples_per_second = 1e6 * static_cast<double>(config_.run.batch_size) /
                                 (result.step.median_us + result.data_wait_us);
    result.parameters = plan_.graph.trained_parameters();
    result.state_bytes = plan_.layout.bytes;
    result.planned_peak_bytes = plan_.memory.peak_bytes();
    result.re_executions = re_executions_;
    result.mispredictions = mispredictions_;
  }

  const BenchmarkConfig& config_;
  const TrainObserver& observer_;
  ThreadPool pool_;
  RunPlan plan_;
  ExampleSet examples_;
  std::unique_ptr<BatchSource> source_;
  std::vector<int64_t> wait_ns_;
  int64_t re_executions_ = 0, mispredictions_ = 0;
};

}  // namespace

Status measure_machine(const kernels::KernelTable& table, ThreadPool& pool, Benchmark& result) {
  result.cpu = cpu_model_name();
  result.integer_instructions = table.peak->integer_instructions;
  result.float_instructions = table.peak->float_instructions;
  for (const bool all_threads : {false, true}) {
    if (all_threads && pool.size() == 1) continue;
    MANTISSA_ASSIGN(const MachinePeaks peaks, measure_peaks(*table.peak, pool, all_threads));
    result.peaks.push_back(peaks);
  }
  return {};
}

Result<Benchmark> run_benchmark(const BenchmarkConfig& config, const TrainObserver& observer) {
  return Measurement(config, observer).run();
}

}  // namespace mantissa
