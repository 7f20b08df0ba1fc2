// Recurrent layers in fp32: rnn, lstm and gru as PyTorch defines them; sums in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/fp32/fp32.h"

namespace mantissa::ops::fp32 {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A step of one sequence: sums of the gates' parts from the input and from h, what the step before
// left, and what this one leaves. Gradients have the same names with a d.
struct Step {
  int64_t n = 0;  // channels
  const double *x = nullptr, *s = nullptr;
  const double *h_before = nullptr, *before = nullptr;
  double *h = nullptr, *record = nullptr;
  const float* peepholes = nullptr;  // [3, n]

  double peephole(int gate, int64_t j) const {
    return peepholes == nullptr ? 0 : peepholes[gate * n + j];
  }
};

struct StepGradient {
  const double* dh = nullptr;
  double *dx = nullptr, *ds = nullptr, *carry_h = nullptr, *carry_c = nullptr;
};

struct Rnn {
  static constexpr int kGates = 1, kRecord = 0;
  static void forward(const Step& a) {
    for (int64_t j = 0; j < a.n; ++j) a.h[j] = std::tanh(a.x[j] + a.s[j]);
  }
  static void backward(const Step& a, const StepGradient& g) {
    for (int64_t j = 0; j < a.n; ++j) {
      g.dx[j] = g.ds[j] = g.dh[j] * (1 - a.h[j] * a.h[j]);
      g.carry_h[j] = 0;
    }
  }
};

struct Lstm {
  static constexpr int kGates = 4, kRecord = 5;  // i, f, g, o, cell
  static void forward(const Step& a) {
    const int64_t n = a.n;
    for (int64_t j = 0; j < n; ++j) {
      const auto sum = [&](int gate) { return a.x[gate * n + j] + a.s[gate * n + j]; };
      const double old_cell = a.before[4 * n + j];
      const double i = sigmoid(sum(0) + a.peephole(0, j) * old_cell);
      const double f = sigmoid(sum(1) + a.peephole(1, j) * old_cell);
      const double g = std::tanh(sum(2)), cell = f * old_cell + i * g;
      const double o = sigmoid(sum(3) + a.peephole(2, j) * cell);
      const double record[] = {i, f, g, o, cell};
      for (int k = 0; k < 5; ++k) a.record[k * n + j] = record[k];
      a.h[j] = o * std::tanh(cell);
    }
  }
  static void backward(const Step& a, const StepGradient& d) {
    const int64_t n = a.n;
    for (int64_t j = 0; j < n; ++j) {
      const double i = a.record[j], f = a.record[n + j], g = a.record[2 * n + j],
                   o = a.record[3 * n + j], cell = a.record[4 * n + j],
                   old_cell = a.before[4 * n + j], bent = std::tanh(cell);
      const double of_o = d.dh[j] * bent * o * (1 - o);
      const double of_cell =
          d.carry_c[j] + d.dh[j] * o * (1 - bent * bent) + of_o * a.peephole(2, j);
      const double of_i = of_cell * g * i * (1 - i), of_f = of_cell * old_cell * f * (1 - f);
      const double gradients[] = {of_i, of_f, of_cell * i * (1 - g * g), of_o};
      for (int k = 0; k < 4; ++k) d.dx[k * n + j] = d.ds[k * n + j] = gradients[k];
      d.carry_c[j] = of_cell * f + of_i * a.peephole(0, j) + of_f * a.peephole(1, j);
      d.carry_h[j] = 0;
    }
  }
};

struct Gru {
  static constexpr int kGates = 3, kRecord = 4;  // r, z, n, and n's sum from h
  static void forward(const Step& a) {
    const int64_t n = a.n;
    for (int64_t j = 0; j < n; ++j) {
      const double reset = sigmoid(a.x[j] + a.s[j]), keep = sigmoid(a.x[n + j] + a.s[n + j]);
      const double recurrent = a.s[2 * n + j];
      const double candidate = std::tanh(a.x[2 * n + j] + reset * recurrent);
      const double record[] = {reset, keep, candidate, recurrent};
      for (int k = 0; k < 4; ++k) a.record[k * n + j] = record[k];
      a.h[j] = (1 - keep) * candidate + keep * a.h_before[j];
    }
  }
  static void backward(const Step& a, const StepGradient& d) {
    const int64_t n = a.n;
    for (int64_t j = 0; j < n; ++j) {
      const double reset = a.record[j], keep = a.record[n + j], candidate = a.record[2 * n + j],
                   recurrent = a.record[3 * n + j], dh = d.dh[j];
      const double of_n = dh * (1 - keep) * (1 - candidate * candidate);
      d.dx[j] = d.ds[j] = of_n * recurrent * reset * (1 - reset);
      d.dx[n + j] = d.ds[n + j] = dh * (a.h_before[j] - candidate) * keep * (1 - keep);
      d.dx[2 * n + j] = of_n;
      d.ds[2 * n + j] = of_n * reset;
      d.carry_h[j] = dh * keep;
    }
  }
};

struct Sizes {
  int64_t sequences, steps, n, gates;
  Sizes(const Shape& output, int cell_gates)
      : steps(output[output.rank - 2]), n(output.last()), gates(cell_gates * n) {
    sequences = output.count() / (steps * n);
  }
};

// h [steps, n] of a sequence, its records, and how many steps are no padding, in memory that
// forward and backward share.
template <typename Cell>
struct Steps {
  const Sizes& z;
  double *length, *h, *records;
  const double* zeros;
  const float* peepholes;

  static int64_t numbers(const Sizes& z) { return 1 + z.steps * z.n * (1 + Cell::kRecord); }
  Steps(const OpContext& c, const Sizes& sizes, double* base, const std::vector<double>& none)
      : z(sizes), length(base), h(base + 1), records(h + z.steps * z.n), zeros(none.data()) {
    const bool has_peepholes = Cell::kGates == 4 && c.parameters.size() > 1;
    peepholes = has_peepholes ? c.parameters[1].mantissa.as<float>() : nullptr;
  }

  Step at(int64_t t, const double* x, const double* s) const {
    const int64_t record = z.n * Cell::kRecord;
    return {.n = z.n,
            .x = x,
            .s = s,
            .h_before = t > 0 ? h + (t - 1) * z.n : zeros,
            .before = t > 0 ? records + (t - 1) * record : zeros,
            .h = h + t * z.n,
            .record = records + t * record,
            .peepholes = peepholes};
  }
};

template <typename Cell>
std::vector<double> zeros_of(const Sizes& z) {
  return std::vector<double>(z.n * std::max(1, Cell::kRecord));
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
  *steps.length = c.inputs.size() < 2 ? z.steps : c.inputs[1].as<int32_t>()[sequence];
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
}

template <typename Cell>
OpMemory memory(const OpShapes& shapes, const PlanningContext&) {
  const Sizes z(shapes.output, Cell::kGates);
  return {.saved_bytes = z.sequences * Steps<Cell>::numbers(z) * int64_t{sizeof(double)}};
}

template <typename Cell>
void forward(const OpContext& c) {
  const Sizes z(c.output.shape, Cell::kGates);
  const int64_t numbers = Steps<Cell>::numbers(z);
  const std::vector<double> none = zeros_of<Cell>(z), columns = columns_of(c, z);
  for_images(c, z.sequences, [&](int64_t sequence) {
    std::vector<double> own(c.saved == nullptr ? numbers : 0);
    double* const base =
        c.saved == nullptr ? own.data() : reinterpret_cast<double*>(c.saved) + sequence * numbers;
    const Steps<Cell> steps(c, z, base, none);
    run(c, z, sequence, columns, steps);
    float* out = c.output.as<float>() + sequence * z.steps * z.n;
    for (int64_t i = 0; i < z.steps * z.n; ++i) out[i] = static_cast<float>(steps.h[i]);
  });
}

// Back through time, calling visit(step, gradient, t) for each step from the last.
template <typename Cell, typename Visit>
void go_back(const OpContext& c, const Sizes& z, int64_t sequence, const Visit& visit) {
  const std::vector<double> none = zeros_of<Cell>(z);
  const Steps<Cell> steps(
      c, z, reinterpret_cast<double*>(c.saved) + sequence * Steps<Cell>::numbers(z), none);
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
}

template <typename Cell>
void backward_input(const OpContext& c) {
  const Sizes z(c.grad_output.shape, Cell::kGates);
  for_images(c, z.sequences, [&](int64_t sequence) {
    const int64_t numbers = z.steps * z.gates;
    std::fill_n(c.grad_inputs[0].as<float>() + sequence * numbers, numbers, 0.0F);
    go_back<Cell>(c, z, sequence, [&](const Step&, const StepGradient& g, int64_t t) {
      float* to = c.grad_inputs[0].as<float>() + (sequence * z.steps + t) * z.gates;
      for (int64_t k = 0; k < z.gates; ++k) to[k] = static_cast<float>(g.dx[k]);
    });
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
