#include "measure/benchmark_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/passes/node_operands.h"

namespace mantissa {
namespace {

// Weights in blocks count as the bytes that they are computed with.
int64_t bytes_of(const Tensor& tensor) {
  return tensor.empty() ? 0 : tensor.count() * element_bytes(tensor.type);
}

// The bytes of a parameter that forward and backward read, backward adds to, an update changes.
int64_t bytes_of(const ParameterView& parameter, SegmentKind kind) {
  if (kind == SegmentKind::kGradWeights) return 2 * bytes_of(parameter.gradient);
  if (kind != SegmentKind::kUpdate && kind != SegmentKind::kStatistics) {
    return bytes_of(parameter.mantissa);
  }
  int64_t changed = bytes_of(parameter.mantissa) + bytes_of(parameter.accumulator);
  for (const Tensor& moment : parameter.moments) changed += bytes_of(moment);
  return bytes_of(parameter.gradient) + 2 * changed;
}

// Operands read plus operands written, each once, except statistics. Workspaces and packed copies
// are internal to a kernel. So a kernel that reads an operand twice shows a low rate.
int64_t bytes_of(const Instruction& instruction, const OpContext& context) {
  int64_t bytes = bytes_of(context.output()) + bytes_of(context.grad_output()) +
                  instruction.first(Role::kSaved).bytes();
  // Pixels and labels get their place in each step only.
  for (const Operand& input : instruction.inputs()) bytes += input.bytes();
  const void* written = nullptr;
  for (const Tensor& gradient : context.grad_inputs) {
    // Inputs may share one gradient.
    if (gradient.data != written) bytes += bytes_of(gradient);
    written = gradient.data;
  }
  for (const ParameterView& parameter : context.parameters) {
    bytes += bytes_of(parameter, kind_of(instruction));
  }
  return bytes;
}

Shape result_shape(const Instruction& instruction, const OpContext& context) {
  switch (kind_of(instruction)) {
    case SegmentKind::kForward:
      // The loss writes no tensor.
      return context.output().empty() && !context.inputs.empty() ? context.inputs[0].shape
                                                                 : context.output().shape;
    case SegmentKind::kGradOutput:
    case SegmentKind::kGradInput:
      for (const Tensor& gradient : context.grad_inputs) {
        if (!gradient.empty()) return gradient.shape;
      }
      return {};
    case SegmentKind::kGradWeights:
    case SegmentKind::kUpdate:
    case SegmentKind::kStatistics:
      return context.parameters.empty() ? Shape{} : context.parameters[0].mantissa.shape;
  }
  return {};
}

void add(const BenchmarkRow& row, BenchmarkRow& sum) {
  sum.count += row.count;
  sum.median_us += row.median_us;
  sum.multiply_adds += row.multiply_adds;
  sum.bytes += row.bytes;
}

}  // namespace

BenchmarkRow describe_instruction(const Program& program, int instruction,
                                  const OpContext& context) {
  const Instruction& what = program.instructions[instruction];
  const int64_t times = what.once_per_step ? 1 : program.options.micro_batches;
  BenchmarkRow row;
  row.phase = phase_name(what);
  row.op = what.op->name;
  row.name = what.name + (what.relu ? "+relu" : "");
  const auto kernel_name = rows_in(*what.op, program.options.format).kernel;
  if (kernel_name != nullptr) row.kernel = kernel_name(context);
  row.output = result_shape(what, context);
  row.multiply_adds = times * what.multiply_adds;
  // A micro-batch writes one record of the statistics, and the update reads all of them: over a
  // step each moves the whole buffer once.
  row.bytes = times * bytes_of(what, context) + what.first(Role::kStatistics).bytes();
  if (kind_of(what) == SegmentKind::kGradWeights && what.row->writes_first_gradient) {
    row.bytes -=
        bytes_of(context.parameters[0].gradient);  // the first micro-batch does not read it
  }
  return row;
}

std::vector<BenchmarkRow> sums(const std::vector<BenchmarkRow>& rows, bool by_op) {
  std::vector<BenchmarkRow> list;
  for (const BenchmarkRow& row : rows) {
    const auto same = [&](const BenchmarkRow& sum) {
      return sum.phase == row.phase && (!by_op || sum.op == row.op);
    };
    auto sum = std::find_if(list.begin(), list.end(), same);
    if (sum == list.end()) {
      BenchmarkRow first;
      first.phase = row.phase;
      first.count = 0;
      if (by_op) first.op = row.op, first.kernel = row.kernel;
      sum = list.insert(list.end(), std::move(first));
    }
    if (sum->kernel != row.kernel) sum->kernel.clear();
    add(row, *sum);
  }
  std::stable_sort(list.begin(), list.end(), [](const BenchmarkRow& a, const BenchmarkRow& b) {
    return a.median_us > b.median_us;
  });
  return list;
}

BenchmarkRow total(const std::vector<BenchmarkRow>& rows) {
  BenchmarkRow sum;
  sum.count = 0;
  for (const BenchmarkRow& row : rows) add(row, sum);
  return sum;
}

double quantile(std::vector<int64_t> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, values.size() - 1);
  const double part = place - std::floor(place);
  return (1 - part) * static_cast<double>(values[below]) +
         part * static_cast<double>(values[above]);
}

double median_us(std::vector<int64_t> ns) { return 1e-3 * quantile(std::move(ns), 0.5); }

}  // namespace mantissa
