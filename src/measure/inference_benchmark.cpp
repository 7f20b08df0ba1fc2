// Measures the time of a trained network for a batch of pictures.
#include "data/batches/ordered_batches.h"
#include "data/synthetic.h"
#include "infer/frozen_network.h"
#include "kernels/kernel_table.h"
#include "measure/benchmark.h"
#include "measure/benchmark_clock.h"
#include "measure/program_times.h"

namespace mantissa {

Result<Benchmark> run_inference_benchmark(BenchmarkConfig& config, const TrainObserver& observer) {
  RunConfig& run = config.run;
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(config.checkpoint));
  MANTISSA_RETURN_IF_ERROR(check_examples(network, config.checkpoint));
  if (network.description.table) {
    return invalid_input(config.checkpoint +
                         ": takes tables; bench --checkpoint measures networks "
                         "of pictures");
  }
  const Shape& image = network.graph.values[network.graph.inputs[0]].shape;
  run.model = network.description.network.name;
  run.format = network.description.format;
  config.height = image[0];
  config.width = image[1];
  config.channels = image[2];
  config.classes = network.graph.classes();

  ThreadPool pool(run.threads);
  MANTISSA_RETURN_IF_ERROR(check_threads(pool));
  const kernels::KernelTable table = kernels::select_kernels(run.isa);
  Benchmark result;
  MANTISSA_RETURN_IF_ERROR(measure_machine(table, pool, result));
  MANTISSA_ASSIGN(
      const Program program,
      compile_inference(network.graph, run.format, run.batch_size, false, {&table, run.threads}));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(program.arena_bytes));
  Programs programs(network.graph, network.state, {pool, arena.span(), run.isa});
  ProgramTimes times(program, programs.add(program));

  MANTISSA_ASSIGN(
      const DatasetInfo info,
      synthetic_info(config.height, config.width, config.channels, config.classes, run.batch_size));
  const ExampleSet images = synthetic_examples(info, run.seed);
  MANTISSA_ASSIGN(OrderedBatches batches,
                  OrderedBatches::create(examples_of(images), images.count));
  const Batch batch = batches.next();
  const int64_t all = config.warmup_steps + config.steps;
  for (int64_t step = 0; step < all; ++step) {
    times.begin();
    const int64_t start = now_ns();
    MANTISSA_RETURN_IF_ERROR(programs.infer(batch));
    if (step >= config.warmup_steps) times.end(now_ns() - start);
    if (!tell_done(observer, TrainEventKind::kStep, step + 1, all)) {
      return make_error(ErrorCode::kInterrupted, "interrupted");
    }
  }
  times.report(result);
  result.examples_per_second = 1e6 * static_cast<double>(run.batch_size) / result.step.median_us;
  result.parameters = network.description.network.trained_parameters();
  return result;
}

}  // namespace mantissa
