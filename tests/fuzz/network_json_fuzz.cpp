// Networks as JSON: a text is refused in one line, or its network is printed, read again and
// compiled.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/kernel_table.h"
#include "models/json/network_json.h"
#include "plan/passes/network_format.h"
#include "plan/programs/program.h"

namespace mantissa {
namespace {

void check(bool holds, const char* what, const std::string& text) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, text.c_str());
  std::abort();
}

// Compiling a large network takes seconds: not here.
bool is_small(const Graph& graph) {
  int64_t numbers = 0;
  for (const Value& value : graph.values) numbers += value.shape.count();
  for (const Parameter& parameter : graph.parameters) numbers += parameter.shape.count();
  return graph.nodes.size() <= 64 && numbers <= 10'000'000;
}

void compile_training(const Graph& network, const char* format_name) {
  const Format format = *parse_format(format_name);
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const auto program =
      compile(in_format(network, format),
              {.micro_batch_size = 2, .exponents = training_exponents(format), .format = format},
              {&table, 2});
  if (!program.ok()) check(!program.error().message.empty(), "refused without a word", format_name);
}

}  // namespace
}  // namespace mantissa

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mantissa;
  const auto graph = parse_network({reinterpret_cast<const char*>(data), size});
  if (!graph.ok()) {
    const std::string& message = graph.error().message;
    check(message.starts_with("line ") && message.size() < 2000 &&
              std::find(message.begin(), message.end(), '\n') == message.end(),
          "not one line", message);
    return 0;
  }
  const std::string text = to_json(*graph);
  const auto again = parse_network(text);
  check(again.ok(), "does not read what it prints", again.ok() ? "" : again.error().message);
  check(to_json(*again) == text, "prints another network", text);
  if (graph->losses.empty() || !is_small(*graph)) return 0;
  for (const char* format : {"bfp8", "dfp8", "fp32"}) compile_training(*graph, format);
  return 0;
}
