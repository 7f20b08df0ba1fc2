// Recurrent layers in fp32: rnn, lstm and gru as PyTorch defines them; sums in double.
#include <algorithm>
#include <vector>

#include "ops/fp32/fp32.h"
#include "ops/fp32/recurrent_cells.h"
#include "ops/recurrent_input.h"

namespace mantissa::ops::fp32 {
namespace {

struct Sizes {
  int64_t sequences, steps, n, gates;
  Sizes(const Shape& output, int cell_gates)
      : steps(output[output.rank - 2]), n(output.last()), gates(cell_gates * n) {
    sequences = output.count() / (steps * n);
  }
};

// How many steps of a sequence are no padding, and its state at the start and after each step, h
// and a record, in memory that forward and backward share.
template <typename Cell>
struct Steps {
  const Sizes& z;
  double *length, *h, *records;
  const float* peepholes;

  static constexpr int64_t record(const Sizes& z) { return z.n * Cell::kRecord; }
  static int64_t numbers(const Sizes& z) { return 1 + (z.steps + 1) * (z.n + record(z)); }
  Steps(const OpContext& c, const Sizes& sizes, double* base)
      : z(sizes), length(base), h(base + 1), records(h + (z.steps + 1) * z.n) {
    const bool has_peepholes = Cell::kGates == 4 && c.parameters.size() > 1;
    peepholes = has_peepholes ? c.parameters[1].mantissa.as<float>() : nullptr;
  }

  Step at(int64_t t, const double* x, const double* s) const {
    return {.n = z.n,
            .x = x,
            .s = s,
            .h_before = h + t * z.n,
            .before = records + t * record(z),
            .h = h + (t + 1) * z.n,
            .record = records + (t + 1) * record(z),
            .peepholes = peepholes};
  }
};

// Where the last piece of a sequence left its state: h, and the record behind it.
double* cached_state(const OpContext& c, int64_t sequence) {
  return reinterpret_cast<double*>(c.cache.of(sequence));
}

// Writes a sequence's length and its state at the start, zeros unless it is given, or at the start
// of its next piece.
template <typename Cell>
void start(const OpContext& c, const Sizes& z, int64_t sequence, const Steps<Cell>& steps) {
  *steps.length = c.inputs.size() <= kLengthsInput
                      ? static_cast<double>(z.steps)
                      : c.inputs[kLengthsInput].as<int32_t>()[sequence];
  if (c.scalars->position > 0) {
    const double* const cached = cached_state(c, sequence);
    std::copy_n(cached, z.n, steps.h);
    std::copy_n(cached + z.n, Steps<Cell>::record(z), steps.records);
    return;
  }
  std::fill_n(steps.h, z.n, 0.0);
  std::fill_n(steps.records, Steps<Cell>::record(z), 0.0);
  if (c.inputs.size() <= kStartInput) return;
  std::copy_n(c.inputs[kStartInput].as<float>() + sequence * z.n, z.n, steps.h);
  if constexpr (Cell::kGates == 4) {
    std::copy_n(c.inputs[kStartCellInput].as<float>() + sequence * z.n, z.n,
                steps.records + 4 * z.n);
  }
}

// The weights' columns, so that inner loops have no sums of their own.
std::vector<double> columns_of(const OpContext& c, const Sizes& z) {
  const auto* weights = c.parameters[0].mantissa.as<float>();
  std::vector<double> columns(z.gates * z.n);
  for (int64_t k = 0; k < z.gates; ++k) {
    for (int64_t j = 0; j < z.n; ++j) columns[j * z.gates + k] = weights[k * z.n + j];
  }
  return columns;
}

template <typename Cell>
void run(const OpContext& c, const Sizes& z, int64_t sequence, const std::vector<double>& columns,
         const Steps<Cell>& steps) {
  std::vector<double> x(z.gates), s(z.gates);
  start(c, z, sequence, steps);
  for (int64_t t = 0; t < z.steps; ++t) {
    const Step step = steps.at(t, x.data(), s.data());
    if (t >= *steps.length) {  // padding has the state of the last step before it
      std::copy_n(step.h_before, z.n, step.h);
      std::copy_n(step.before, z.n * Cell::kRecord, step.record);
      continue;
    }
    const float* in = c.inputs[0].as<float>() + (sequence * z.steps + t) * z.gates;
    std::copy_n(in, z.gates, x.begin());
    std::fill(s.begin(), s.end(), 0.0);
    for (int64_t j = 0; j < z.n; ++j) {
      const double h = step.h_before[j], *column = columns.data() + j * z.gates;
      for (int64_t k = 0; k < z.gates; ++k) s[k] += column[k] * h;
    }
    if constexpr (Cell::kGates == 3) {
      const auto* bias = c.parameters[1].mantissa.as<float>();
      for (int64_t j = 0; j < z.n; ++j) s[2 * z.n + j] += bias[j];
    }
    Cell::forward(step);
  }
  if (!c.cache.exists()) return;
  double* const cached = cached_state(c, sequence);
  std::copy_n(steps.h + z.steps * z.n, z.n, cached);
  std::copy_n(steps.records + z.steps * Steps<Cell>::record(z), Steps<Cell>::record(z),
              cached + z.n);
}

template <typename Cell>
OpMemory memory(const OpShapes& shapes, const PlanningContext&) {
  const Sizes z(shapes.output, Cell::kGates);
  const int64_t state = (z.n + Steps<Cell>::record(z)) * int64_t{sizeof(double)};
  return {.saved_bytes = z.sequences * Steps<Cell>::numbers(z) * int64_t{sizeof(double)},
          .cache_bytes = shapes.cached_positions > 0 ? state : 0};
}

template <typename Cell>
void forward(const OpContext& c) {
  const Sizes z(c.output.shape, Cell::kGates);
  const int64_t numbers = Steps<Cell>::numbers(z);
  const std::vector<double> columns = columns_of(c, z);
  for_images(c, z.sequences, [&](int64_t sequence) {
    std::vector<double> own(c.saved == nullptr ? numbers : 0);
    double* const base =
        c.saved == nullptr ? own.data() : reinterpret_cast<double*>(c.saved) + sequence * numbers;
    const Steps<Cell> steps(c, z, base);
    run(c, z, sequence, columns, steps);
    float* out = c.output.as<float>() + sequence * z.steps * z.n;
    for (int64_t i = 0; i < z.steps * z.n; ++i) out[i] = static_cast<float>(steps.h[z.n + i]);
  });
}

// Gradients of a sequence's state at the start.
struct StartGradient {
  std::vector<double> h, cell;
};

// Back through time, calling visit(step, gradient, t) for each step from the last that is no
// padding.
template <typename Cell, typename Visit>
StartGradient go_back(const OpContext& c, const Sizes& z, int64_t sequence, const Visit& visit) {
  const Steps<Cell> steps(c, z,
                          reinterpret_cast<double*>(c.saved) + sequence * Steps<Cell>::numbers(z));
  const auto* weights = c.parameters[0].mantissa.as<float>();
  std::vector<double> dh(z.n), carry_h(z.n), carry_c(z.n), dx(z.gates), ds(z.gates);
  const StepGradient gradient{dh.data(), dx.data(), ds.data(), carry_h.data(), carry_c.data()};
  for (int64_t t = z.steps - 1; t >= 0; --t) {
    const float* g = c.grad_output.as<float>() + (sequence * z.steps + t) * z.n;
    for (int64_t j = 0; j < z.n; ++j) dh[j] = carry_h[j] + g[j];
    if (t >= *steps.length) {  // the gradient belongs to the step before
      std::copy(dh.begin(), dh.end(), carry_h.begin());
      continue;
    }
    const Step step = steps.at(t, nullptr, nullptr);
    Cell::backward(step, gradient);
    visit(step, gradient, t);
    for (int64_t k = 0; k < z.gates; ++k) {
      for (int64_t j = 0; j < z.n; ++j) carry_h[j] += weights[k * z.n + j] * ds[k];
    }
  }
  return {carry_h, carry_c};
}

// Writes a sequence's part of an input's gradient, if it is wanted.
void write_start(const OpContext& c, const Sizes& z, int64_t sequence, size_t input,
                 const std::vector<double>& gradient) {
  if (input >= c.grad_inputs.size() || c.grad_inputs[input].empty()) return;
  float* to = c.grad_inputs[input].as<float>() + sequence * z.n;
  for (int64_t j = 0; j < z.n; ++j) to[j] = static_cast<float>(gradient[j]);
}

template <typename Cell>
void backward_input(const OpContext& c) {
  const Sizes z(c.grad_output.shape, Cell::kGates);
  for_images(c, z.sequences, [&](int64_t sequence) {
    const int64_t numbers = z.steps * z.gates;
    const bool wanted = !c.grad_inputs[kGatesInput].empty();
    float* const to =
        wanted ? c.grad_inputs[kGatesInput].as<float>() + sequence * numbers : nullptr;
    if (wanted) std::fill_n(to, numbers, 0.0F);
    const StartGradient start =
        go_back<Cell>(c, z, sequence, [&](const Step&, const StepGradient& g, int64_t t) {
          for (int64_t k = 0; wanted && k < z.gates; ++k) {
            to[t * z.gates + k] = static_cast<float>(g.dx[k]);
          }
        });
    write_start(c, z, sequence, kStartInput, start.h);
    write_start(c, z, sequence, kStartCellInput, start.cell);
  });
}

// One sequence after the other, so that sums do not depend on threads.
template <typename Cell>
void backward_weights(const OpContext& c) {
  const Sizes z(c.grad_output.shape, Cell::kGates);
  std::vector<double> weights(z.gates * z.n), small(3 * z.n);
  for (int64_t sequence = 0; sequence < z.sequences; ++sequence) {
    go_back<Cell>(c, z, sequence, [&](const Step& step, const StepGradient& g, int64_t) {
      for (int64_t k = 0; k < z.gates; ++k) {
        for (int64_t j = 0; j < z.n; ++j) weights[k * z.n + j] += g.ds[k] * step.h_before[j];
      }
      for (int64_t j = 0; j < z.n; ++j) {
        if (Cell::kGates == 3) small[j] += g.ds[2 * z.n + j];
        if (Cell::kGates != 4) continue;
        small[j] += g.ds[j] * step.before[4 * z.n + j];
        small[z.n + j] += g.ds[z.n + j] * step.before[4 * z.n + j];
        small[2 * z.n + j] += g.ds[3 * z.n + j] * step.record[4 * z.n + j];
      }
    });
  }
  const std::vector<double>* sums[] = {&weights, &small};
  for (size_t p = 0; p < c.parameters.size(); ++p) {
    const Tensor& to = c.parameters[p].gradient;
    for (int64_t i = 0; !to.empty() && i < to.count(); ++i) {
      to.as<float>()[i] += static_cast<float>((*sums[p])[static_cast<size_t>(i)]);
    }
  }
}

template <typename Cell>
constexpr OpFunctions functions() {
  return {.memory = memory<Cell>,
          .forward = forward<Cell>,
          .backward_input = backward_input<Cell>,
          .backward_weights = backward_weights<Cell>,
          .kernel = loops_name};
}

}  // namespace

const OpFunctions kRnn = functions<Rnn>();
const OpFunctions kLstm = functions<Lstm>();
const OpFunctions kGru = functions<Gru>();

}  // namespace mantissa::ops::fp32
