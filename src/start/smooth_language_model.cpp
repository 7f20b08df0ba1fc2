#include "start/smooth_language_model.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "data/text/text.h"
#include "formats/json_tree.h"
#include "kernels/kernel_table.h"
#include "networks/language/smoothing.h"
#include "plan/programs/program.h"
#include "runtime/executor.h"
#include "runtime/memory.h"
#include "start/float_state.h"

namespace mantissa {
namespace {

constexpr int64_t kMeasuredTokens = 1024;

// Values of blocks, one block after the other, in the order of kSmoothedValues.
std::vector<int> smoothed_values(const Graph& graph, int64_t blocks) {
  std::vector<int> values;
  for (int64_t i = 1; i <= blocks; ++i) {
    for (const SmoothedValue& value : kSmoothedValues) {
      const std::string name = "block" + std::to_string(i) + "." + value.name;
      const auto node = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                     [&](const Node& each) { return each.name == name; });
      values.push_back(node->outputs[0]);
    }
  }
  return values;
}

void take_maxima(const Tensor& value, std::vector<float>& maxima) {
  maxima.resize(static_cast<size_t>(value.shape.last()));
  const auto* number = value.as<float>();
  for (int64_t i = 0; i < value.count(); ++i) {
    float& most = maxima[static_cast<size_t>(i % value.shape.last())];
    most = std::max(most, std::abs(number[i]));
  }
}

// Sequences of the text that lie evenly in it.
std::vector<std::vector<int32_t>> some_sequences(const std::vector<Token>& tokens,
                                                 int64_t length) {
  const int64_t count =
      std::clamp<int64_t>(kMeasuredTokens / length, 1, std::ssize(tokens) / length);
  std::vector<std::vector<int32_t>> sequences;
  for (int64_t i = 0; i < count; ++i) {
    const auto begin = tokens.begin() + i * ((std::ssize(tokens) - length) / count);
    sequences.emplace_back(begin, begin + length);
  }
  return sequences;
}

Result<std::vector<BlockMaxima>> measure_maxima(const std::vector<std::vector<int32_t>>& sequences,
                                         int64_t blocks, const MeasuringSettings& settings,
                                         const onnx::ImportedNetwork& imported) {
  const std::vector<int> values = smoothed_values(imported.graph, blocks);
  MANTISSA_ASSIGN(State state, float_state(imported, settings.seed));
  const kernels::KernelTable table = kernels::select_kernels(settings.isa);
  MANTISSA_ASSIGN(const Program program, compile(imported.graph,
                                                 {.kind = ProgramKind::kInference,
                                                  .with_loss = false,
                                                  .exponents = ExponentMode::kCalibrate,
                                                  .results = values,
                                                  .format = kFloatFormat},
                                                 {&table, settings.threads}));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(program.arena_bytes));
  ThreadPool pool(settings.threads);
  Executor executor(imported.graph, program, state, arena.span(), pool, settings.isa);
  std::vector<BlockMaxima> maxima(static_cast<size_t>(blocks));
  for (const std::vector<int32_t>& tokens : sequences) {
    const std::vector<const void*> inputs(imported.graph.inputs.size(), tokens.data());
    MANTISSA_ASSIGN(const StepResult result, executor.infer(inputs));
    static_cast<void>(result);
    int at = 0;
    for (BlockMaxima& block : maxima) {
      for (const SmoothedValue& value : kSmoothedValues) {
        take_maxima(executor.output(at++), block.*value.maxima);
      }
    }
  }
  return maxima;
}

}  // namespace

Result<std::string> smooth_language_model(const DecoderSizes& sizes, const std::string& path,
                                          const Vocabulary& vocabulary,
                                          const MeasuringSettings& settings,
                                          onnx::ImportedNetwork& imported) {
  const int64_t length = imported.graph.values[imported.graph.inputs[0]].shape[0];
  MANTISSA_ASSIGN(const Text text,
                  load_text(path, {.sequence = length,
                                   .tokens = vocabulary.tokens(),
                                   .known = std::make_shared<const Vocabulary>(vocabulary)}));
  const std::vector<std::vector<int32_t>> sequences = some_sequences(text.train, length);
  MANTISSA_ASSIGN(const std::vector<BlockMaxima> maxima,
                  measure_maxima(sequences, sizes.layers, settings, imported));
  const int64_t tokens = std::ssize(sequences) * length;
  imported.notes.push_back("smoothed by " + std::to_string(tokens) + " tokens of " + path +
                           ": powers of two that moved, " + smooth(sizes, maxima, imported));
  return "{\"text\": " + json_quoted(path) + ", \"sha256\": \"" + text.sha256 +
         "\", \"tokens\": " + std::to_string(tokens) + "}";
}

}  // namespace mantissa
