#include "measure/benchmark_json.h"

#include <nlohmann/json.hpp>

#include "data/synthetic.h"

namespace mantissa {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson dims_json(const Shape& shape) {
  OrderedJson dims = OrderedJson::array();
  for (int axis = 0; axis < shape.rank; ++axis) dims.push_back(shape[axis]);
  return dims;
}

// Null if there is nothing to count, or if the CPU's peak is not known.
OrderedJson number_if(bool known, double value) {
  return known ? OrderedJson(value) : OrderedJson();
}

OrderedJson rates_json(const BenchmarkRow& row, double peak_gops) {
  const bool timed = row.median_us > 0, multiplies = timed && row.multiply_adds > 0;
  return {{"multiply_adds", row.multiply_adds},
          {"gops", number_if(multiplies, multiplies ? row.gops() : 0)},
          {"percent_of_peak",
           number_if(multiplies && peak_gops > 0, multiplies ? 100 * row.gops() / peak_gops : 0)},
          {"bytes", row.bytes},
          {"gb_per_s", number_if(timed, timed ? row.gb_per_s() : 0)}};
}

OrderedJson row_json(const BenchmarkRow& row, const Benchmark& benchmark) {
  OrderedJson json = {{"phase", row.phase}};
  if (!row.op.empty()) json["op"] = row.op;
  if (!row.name.empty()) json["name"] = row.name;
  if (!row.op.empty())
    json["kernel"] = row.kernel.empty() ? OrderedJson() : OrderedJson(row.kernel);
  if (!row.name.empty()) json["output"] = dims_json(row.output);
  if (row.name.empty()) json["instructions"] = row.count;
  json["median_us"] = row.median_us;
  json["percent_of_step"] = 100 * row.median_us / benchmark.step.median_us;
  json.update(rates_json(row, benchmark.peaks.back().integer_gops));
  return json;
}

OrderedJson rows_json(const std::vector<BenchmarkRow>& rows, const Benchmark& benchmark) {
  OrderedJson json = OrderedJson::array();
  for (const BenchmarkRow& row : rows) json.push_back(row_json(row, benchmark));
  return json;
}

OrderedJson peaks_json(const Benchmark& benchmark) {
  OrderedJson json = {{"integer_instructions", benchmark.integer_instructions},
                      {"float_instructions", benchmark.float_instructions},
                      {"measured", OrderedJson::array()}};
  for (const MachinePeaks& peaks : benchmark.peaks) {
    json["measured"].push_back({{"threads", peaks.threads},
                                {"integer_gops", peaks.integer_gops},
                                {"float_gops", peaks.float_gops},
                                {"read_gb_per_s", peaks.read_gb_per_s},
                                {"copy_gb_per_s", peaks.copy_gb_per_s}});
  }
  return json;
}

OrderedJson step_json(const Benchmark& benchmark) {
  OrderedJson json = {{"median_us", benchmark.step.median_us},
                      {"p10_us", benchmark.step_p10_us},
                      {"p90_us", benchmark.step_p90_us},
                      {"examples_per_second", benchmark.examples_per_second},
                      {"overhead_us", benchmark.overhead_us},
                      {"overhead_percent", 100 * benchmark.overhead_us / benchmark.step.median_us},
                      {"data_wait_us", benchmark.data_wait_us},
                      {"re_executions", benchmark.re_executions},
                      {"mispredictions", benchmark.mispredictions}};
  json.update(rates_json(benchmark.step, benchmark.peaks.back().integer_gops));
  return json;
}

// The conditions: results that differ in one of them cannot be compared (benchmark_compare.cpp).
OrderedJson run_json(const BenchmarkConfig& config, const Benchmark& benchmark) {
  const RunConfig& run = config.run;
  OrderedJson json = {{"model", run.model},
                      {"format", to_string(run.format)},
                      {"batch_size", run.batch_size},
                      {"data", run.data},
                      {"parameters", benchmark.parameters}};
  if (config.checkpoint.empty()) {
    json.update({{"micro_batch_size", run.micro_batch_size},
                 {"optimizer", optimizer_name(run.optimizer)},
                 {"width", run.width},
                 {"augment", to_string(run.augmentation)}});
    if (run.start) json["from"] = run.start->source;
    if (run.lora.rank > 0) json["lora"] = run.lora.rank;
  } else {
    json["checkpoint"] = config.checkpoint;
  }
  if (run.data == kSyntheticData) {
    if (run.sequence > 0) {
      json["sequence"] = run.sequence;
    } else {
      json["input_size"] = {config.height, config.width, config.channels};
    }
    json["classes"] = config.classes;
  }
  return json;
}

}  // namespace

OrderedJson to_json(const BenchmarkConfig& config, const Benchmark& benchmark) {
  return {{"mantissa_bench", 1},
          {"machine",
           {{"cpu", benchmark.cpu},
            {"isa", isa_name(config.run.isa)},
            {"threads", config.run.threads},
            {"compiler", __VERSION__}}},
          {"run", run_json(config, benchmark)},
          {"steps", config.steps},
          {"warmup_steps", config.warmup_steps},
          {"peaks", peaks_json(benchmark)},
          {"step", step_json(benchmark)},
          {"arena_bytes", benchmark.arena_bytes},
          {"state_bytes", benchmark.state_bytes},
          {"planned_peak_bytes", benchmark.planned_peak_bytes},
          {"measured_peak_bytes", benchmark.measured_peak_bytes},
          {"instructions", rows_json(benchmark.instructions, benchmark)},
          {"by_op", rows_json(benchmark.by_op, benchmark)},
          {"by_phase", rows_json(benchmark.by_phase, benchmark)}};
}

}  // namespace mantissa
