// RNN, LSTM and GRU over sequences of any length, in one or both directions, as ONNX describes
// them.
#include <algorithm>

#include "onnx/evaluate/gemm/gemm.h"
#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/operators/recurrent/recurrent_settings.h"

namespace mantissa::onnx {
namespace {

// One direction: its weights, and its state while the steps go on, [batch, channels].
struct Direction {
  const RecurrentSettings& settings;
  const GateFunction* functions;
  const float *weights, *bias, *peepholes;
  std::vector<float> of_input;  // of all steps, with both biases but GRU's last: [rows, columns]
  std::vector<float> of_state;  // of one step, [batch, columns]
  std::vector<float> h, cell;

  float bent(size_t function, float x) const {
    const float limit = settings.clip;
    return functions[function](std::clamp(x, -limit, limit));
  }
};

// One step of an example: sums of its gates' parts from the input and the state, and its state.
struct Step {
  const float *x, *s;
  float *h, *cell;
};

void rnn_step(const Direction& d, const Step& a) {
  for (int64_t j = 0; j < d.settings.sizes.channels; ++j) a.h[j] = d.bent(0, a.x[j] + a.s[j]);
}

void lstm_step(const Direction& d, const Step& a) {
  const int64_t n = d.settings.sizes.channels;
  for (int64_t j = 0; j < n; ++j) {
    const auto sum = [&](int gate) { return a.x[gate * n + j] + a.s[gate * n + j]; };
    const auto peephole = [&](int gate) {
      return d.peepholes == nullptr ? 0 : d.peepholes[gate * n + j];
    };
    const float old = a.cell[j];
    const float in = d.bent(0, sum(0) + peephole(0) * old);
    const float forget = d.settings.couples ? 1 - in : d.bent(0, sum(2) + peephole(2) * old);
    a.cell[j] = forget * old + in * d.bent(1, sum(3));
    a.h[j] = d.bent(0, sum(1) + peephole(1) * a.cell[j]) * d.functions[2](a.cell[j]);
  }
}

// Gates z, r, h. The recurrent sum of h is complete: the reset gate is in it.
void gru_step(const Direction& d, const Step& a) {
  const int64_t n = d.settings.sizes.channels;
  for (int64_t j = 0; j < n; ++j) {
    const float keep = d.bent(0, a.x[j] + a.s[j]);
    a.h[j] = (1 - keep) * d.bent(1, a.x[2 * n + j] + a.s[2 * n + j]) + keep * a.h[j];
  }
}

// sums = state R^T, for some gates.
void multiply_state(ThreadPool& pool, Direction& d, const float* state, int64_t first,
                    int64_t gates) {
  const RecurrentSizes& s = d.settings.sizes;
  std::vector<float> sums(static_cast<size_t>(s.batch * gates * s.channels));
  const Matrix weights{d.weights + first * s.channels * s.channels, 1, s.channels};
  multiply(pool, s.batch, gates * s.channels, s.channels, {state, s.channels, 1}, weights,
           sums.data());
  for (int64_t b = 0; b < s.batch; ++b) {
    std::copy_n(sums.data() + b * gates * s.channels, gates * s.channels,
                d.of_state.data() + b * s.columns() + first * s.channels);
  }
}

// GRU's recurrent sum of h: the product comes after the reset gate or before it.
void reset_state(ThreadPool& pool, Direction& d, const std::vector<const float*>& inputs) {
  const RecurrentSizes& s = d.settings.sizes;
  const int64_t n = s.channels;
  std::vector<float> reset(d.h.size());
  for (int64_t b = 0; b < s.batch; ++b) {
    if (inputs[b] == nullptr) continue;
    for (int64_t j = 0; j < n; ++j) {
      reset[b * n + j] = d.bent(0, inputs[b][n + j] + d.of_state[b * 3 * n + n + j]);
    }
  }
  const auto bias = [&](int64_t j) { return d.bias == nullptr ? 0 : d.bias[5 * n + j]; };
  if (!d.settings.resets_product) {
    std::vector<float> state = d.h;
    for (size_t i = 0; i < state.size(); ++i) state[i] *= reset[i];
    multiply_state(pool, d, state.data(), 2, 1);
  }
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t j = 0; j < n; ++j) {
      float& sum = d.of_state[b * 3 * n + 2 * n + j];
      sum += bias(j);
      if (d.settings.resets_product) sum *= reset[b * n + j];
    }
  }
}

using StepFunction = void (*)(const Direction&, const Step&);

struct Kind {
  int64_t gates;
  StepFunction step;
  std::vector<std::string> functions;
};

Direction direction_of(OpCall& call, const RecurrentSettings& settings, int64_t direction) {
  const RecurrentSizes& s = settings.sizes;
  const auto part = [&](size_t input, int64_t size) -> const float* {
    return call.has(input) ? call.data<float>(input) + direction * size : nullptr;
  };
  Direction d{settings,
              settings.functions.data() + direction * settings.functions_each(),
              part(kR, s.columns() * s.channels),
              part(kB, 2 * s.columns()),
              part(kPeepholes, 3 * s.channels),
              {},
              {},
              {},
              {}};
  const int64_t rows = s.steps * s.batch;
  d.of_input.resize(static_cast<size_t>(rows * s.columns()));
  d.of_state.resize(static_cast<size_t>(s.batch * s.columns()));
  multiply(call.pool(), rows, s.columns(), s.inputs, {call.data<float>(kX), s.inputs, 1},
           {part(kW, s.columns() * s.inputs), 1, s.inputs}, d.of_input.data());
  const int64_t both = s.gates == 3 ? 2 * s.channels : s.columns();
  for (int64_t i = 0; d.bias != nullptr && i < rows; ++i) {
    for (int64_t k = 0; k < s.columns(); ++k) {
      d.of_input[i * s.columns() + k] += d.bias[k] + (k < both ? d.bias[s.columns() + k] : 0);
    }
  }
  for (auto [input, state] : {std::pair{kStart, &d.h}, {kStartCell, &d.cell}}) {
    state->resize(static_cast<size_t>(s.batch * s.channels));
    for (int64_t b = 0; call.has(input) && b < s.batch; ++b) {
      const int64_t row = s.by_example ? b * s.directions + direction : direction * s.batch + b;
      std::copy_n(call.data<float>(input) + row * s.channels, s.channels,
                  state->data() + b * s.channels);
    }
  }
  return d;
}

void run_direction(OpCall& call, const Kind& kind, Direction& d, int64_t direction) {
  const RecurrentSizes& s = d.settings.sizes;
  const bool back = d.settings.direction == "reverse" || direction == 1;
  const auto length = [&](int64_t b) {
    return call.has(kLengths) ? std::min<int64_t>(call.data<int32_t>(kLengths)[b], s.steps)
                              : s.steps;
  };
  for (int64_t k = 0; k < s.steps; ++k) {
    multiply_state(call.pool(), d, d.h.data(), 0, s.gates);
    std::vector<const float*> inputs(static_cast<size_t>(s.batch), nullptr);
    const auto row = [&](int64_t b) { return s.row(back ? length(b) - 1 - k : k, b); };
    for (int64_t b = 0; b < s.batch; ++b) {
      if (k < length(b)) inputs[b] = d.of_input.data() + row(b) * s.columns();
    }
    if (s.gates == 3) reset_state(call.pool(), d, inputs);
    for (int64_t b = 0; b < s.batch; ++b) {
      if (inputs[b] == nullptr) continue;
      float* h = d.h.data() + b * s.channels;
      kind.step(
          d, {inputs[b], d.of_state.data() + b * s.columns(), h, d.cell.data() + b * s.channels});
      if (!call.wants(0)) continue;
      const int64_t step = row(b);  // [steps, directions, batch], or [batch, steps, directions]
      const int64_t to = s.by_example ? step * s.directions + direction
                                      : (step / s.batch * s.directions + direction) * s.batch + b;
      std::copy_n(h, s.channels, call.out<float>(0) + to * s.channels);
    }
  }
}

void write_state(OpCall& call, size_t output, const RecurrentSizes& s, int64_t direction,
                 const std::vector<float>& state) {
  if (!call.wants(output)) return;
  for (int64_t b = 0; b < s.batch; ++b) {
    const int64_t row = s.by_example ? b * s.directions + direction : direction * s.batch + b;
    std::copy_n(state.data() + b * s.channels, s.channels,
                call.out<float>(output) + row * s.channels);
  }
}

Status run(OpCall& call, const Kind& kind) {
  MANTISSA_ASSIGN(const RecurrentSettings settings,
                  recurrent_settings(call, kind.gates, kind.functions));
  const RecurrentSizes& s = settings.sizes;
  const Dims all = s.by_example ? Dims{s.batch, s.steps, s.directions, s.channels}
                                : Dims{s.steps, s.directions, s.batch, s.channels};
  const Dims last = s.by_example ? Dims{s.batch, s.directions, s.channels}
                                 : Dims{s.directions, s.batch, s.channels};
  for (size_t i = 0; i < call.node().outputs.size(); ++i) {
    MANTISSA_RETURN_IF_ERROR(call.make(i, ElementType::kFloat, i == 0 ? all : last));
  }
  if (call.shapes_only() || count_of(last) == 0) return {};
  for (int64_t direction = 0; direction < s.directions; ++direction) {
    Direction d = direction_of(call, settings, direction);
    run_direction(call, kind, d, direction);
    write_state(call, 1, s, direction, d.h);
    write_state(call, 2, s, direction, d.cell);
  }
  return {};
}

Status rnn(OpCall& call) { return run(call, {1, rnn_step, {"Tanh"}}); }
Status lstm(OpCall& call) { return run(call, {4, lstm_step, {"Sigmoid", "Tanh", "Tanh"}}); }
Status gru(OpCall& call) { return run(call, {3, gru_step, {"Sigmoid", "Tanh"}}); }

constexpr int kOldLayout = 13;  // before it became an attribute

constexpr OpRow kRecurrentRows[] = {
    {"RNN",
     7,
     rnn,
     {3, 6},
     "activation_alpha activation_beta activations clip direction hidden_size",
     kOldLayout,
     2},
    {"RNN",
     14,
     rnn,
     {3, 6},
     "activation_alpha activation_beta activations clip direction hidden_size layout",
     kNewestOpset,
     2},
    {"LSTM",
     7,
     lstm,
     {3, 8},
     "activation_alpha activation_beta activations clip direction hidden_size input_forget",
     kOldLayout,
     3},
    {"LSTM",
     14,
     lstm,
     {3, 8},
     "activation_alpha activation_beta activations clip direction hidden_size input_forget layout",
     kNewestOpset,
     3},
    {"GRU",
     7,
     gru,
     {3, 6},
     "activation_alpha activation_beta activations clip direction hidden_size linear_before_reset",
     kOldLayout,
     2},
    {"GRU",
     14,
     gru,
     {3, 6},
     "activation_alpha activation_beta activations clip direction hidden_size layout "
     "linear_before_reset",
     kNewestOpset,
     2},
};

}  // namespace

std::span<const OpRow> recurrent_operators() { return kRecurrentRows; }

}  // namespace mantissa::onnx
