// The loss of a language model on sequences of a text: a line with each sequence's mean, in nats.
// bench/language_models runs it.
//
//   text_losses MODEL FORMAT RECIPE TEXT SEQUENCES THREADS
//
// MODEL: a file that `mantissa import` wrote. RECIPE: "whole", the network as it is; or "first",
// queries, keys, the last norm and the product of the gated layers with the format's bits, and
// probabilities at a fixed exponent. The sequences lie evenly in the text.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/files/text_file.h"
#include "base/system/thread_pool.h"
#include "graph/rebuild.h"
#include "infer/freeze.h"
#include "kernels/kernel_table.h"
#include "ops/ops.h"
#include "plan/passes/network_format.h"
#include "plan/programs/program.h"
#include "plan/programs/state_layout.h"
#include "run/settings/starting_point.h"
#include "runtime/executor.h"
#include "runtime/memory.h"

namespace {

using namespace mantissa;

bool has_first_bits(const Node& node) {
  if (node.op == &ops::kAdd) return true;
  for (const char* part : {".project", ".gate", ".up", ".down"}) {
    if (node.name.ends_with(part)) return true;
  }
  return false;
}

Result<Graph> first_recipe(const Graph& network) {
  GraphChanges changes;
  changes.before = [&](GraphBuilder&, int n, std::vector<int>&, Attributes& attributes) {
    std::vector<Attributes::Item> items = attributes.items();
    for (auto& [name, value] : items) {
      if (name == "input_bits") value = int64_t{0};
      if (name == "probabilities") value = std::string("fixed");
      if (name == "least_bits" && !has_first_bits(network.nodes[n])) value = int64_t{0};
    }
    attributes = Attributes(std::move(items));
  };
  return rebuilt(network, changes);
}

double number_at(const Tensor& logits, int64_t row, int64_t i) {
  if (logits.type == DataType::kFloat) return logits.as<float>()[i];
  return std::ldexp(logits.as<int32_t>()[i], logits.row_exponent(row));
}

// The mean of -ln p of the next token, over the positions.
double mean_loss(const Tensor& logits, const std::vector<int32_t>& labels) {
  const int64_t classes = logits.shape.last();
  double total = 0;
  for (int64_t row = 0; row < std::ssize(labels); ++row) {
    const int64_t first = row * classes;
    double largest = number_at(logits, row, first), sum = 0;
    for (int64_t i = 0; i < classes; ++i) {
      largest = std::max(largest, number_at(logits, row, first + i));
    }
    for (int64_t i = 0; i < classes; ++i) {
      sum += std::exp(number_at(logits, row, first + i) - largest);
    }
    total += largest + std::log(sum) - number_at(logits, row, first + labels[row]);
  }
  return total / static_cast<double>(labels.size());
}

Status run(char** arguments) {
  MANTISSA_ASSIGN(const TrainedFile trained, read_trained(arguments[1]));
  MANTISSA_ASSIGN(const Format format, parse_format(arguments[2]));
  MANTISSA_ASSIGN(TrainedNetwork network, network_of(trained));
  MANTISSA_ASSIGN(const auto vocabulary, vocabulary_of(trained));
  if (!network.network || !vocabulary) return invalid_input("is no imported language model");
  if (arguments[3] == std::string("first")) {
    MANTISSA_ASSIGN(network.network, first_recipe(*network.network));
  }
  const Graph graph = freeze_graph(in_format(*network.network, format));
  MANTISSA_ASSIGN(State state, State::create(frozen_layout(graph, format)));
  MANTISSA_ASSIGN(const TakenParameters taken,
                  take_named_parameters(graph, format, trained.parameters, state));
  if (!taken.initial.empty()) return invalid_input("lacks " + taken.initial[0]);

  const int threads = std::atoi(arguments[6]);
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  MANTISSA_ASSIGN(const Program program, compile(graph,
                                                 {.kind = ProgramKind::kInference,
                                                  .with_loss = false,
                                                  .exponents = ExponentMode::kFixed,
                                                  .format = format},
                                                 {&table, threads}));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(program.arena_bytes));
  ThreadPool pool(threads);
  Executor executor(graph, program, state, arena.span(), pool, best_isa());

  MANTISSA_ASSIGN(const std::string text, read_text_file(arguments[4], int64_t{1} << 30));
  MANTISSA_ASSIGN(const std::vector<Token> tokens, vocabulary->encode(text));
  const int64_t length = graph.values[graph.inputs[0]].shape[0];
  const int64_t count = std::atoll(arguments[5]);
  if (std::ssize(tokens) < count * (length + 1)) return invalid_input("the text is too short");
  for (int64_t n = 0; n < count; ++n) {
    const auto begin = tokens.begin() + n * ((std::ssize(tokens) - length - 1) / count);
    const std::vector<int32_t> sequence(begin, begin + length),
        labels(begin + 1, begin + length + 1);
    const std::vector<const void*> inputs(graph.inputs.size(), sequence.data());
    MANTISSA_ASSIGN(const StepResult result, executor.infer(inputs));
    static_cast<void>(result);
    std::printf("%.6f\n", mean_loss(executor.output(0), labels));
    std::fflush(stdout);
  }
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) return 2;
  const Status status = run(arguments);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
