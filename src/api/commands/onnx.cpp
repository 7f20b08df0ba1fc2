#include "mantissa/onnx.h"

#include <algorithm>
#include <chrono>

#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/settings/settings.h"
#include "base/system/thread_pool.h"
#include "formats/arrays/npz.h"
#include "onnx/evaluate/evaluate.h"
#include "onnx/evaluate/halves.h"
#include "onnx/files/arrays.h"
#include "onnx/files/reader.h"

namespace mantissa {
namespace {

struct OnnxRunConfig {
  std::string inputs;
  std::string out;
  int threads = 1;
};

constexpr SettingOf<OnnxRunConfig> kRunRows[] = {
    {"inputs", "NPZ file with an array for each input", "", parse_text<&OnnxRunConfig::inputs>},
    {"out", "NPZ file to write, with an array for each output", "",
     parse_text<&OnnxRunConfig::out>},
    kThreads<OnnxRunConfig>};
constexpr CommandOf<OnnxRunConfig> kRunCommand = {"run", kRunRows};

// Arrays have no real numbers of 16 bits: float stands for them.
Result<onnx::TensorData> for_input(const onnx::ModelData& model, onnx::TensorData tensor) {
  for (const onnx::ValueData& input : model.graph.inputs) {
    const bool is_half = input.name == tensor.name && onnx::has_16_bits(input.type);
    if (!is_half || tensor.type != onnx::ElementType::kFloat) continue;
    MANTISSA_ASSIGN(const onnx::TensorData numbers, onnx::aligned(tensor));
    return onnx::narrowed(numbers, input.type);
  }
  return tensor;
}

}  // namespace

CommandInfo run_command() { return info_of<kRunCommand>(); }

Outcome<OnnxOutputs> run_onnx(const std::string& path, const Settings& settings) {
  MANTISSA_ASSIGN(const OnnxRunConfig config, read_settings(kRunCommand, settings));
  if (config.inputs.empty()) {
    return invalid_input("name a file with the inputs: --inputs in.npz");
  }
  if (config.out.empty()) return invalid_input("name a file for the outputs: --out out.npz");
  MANTISSA_ASSIGN(const onnx::ModelData model, onnx::read_model(path));
  MANTISSA_ASSIGN(std::vector<NpyArray> arrays, read_npz(config.inputs));
  onnx::Tensors inputs;
  for (NpyArray& array : arrays) {
    const std::string name = array.name;
    MANTISSA_ASSIGN(inputs[name], for_input(model, onnx::to_tensor(std::move(array))));
  }
  ThreadPool pool(config.threads);
  const auto start = std::chrono::steady_clock::now();
  auto outputs = onnx::evaluate(model, inputs, pool);
  if (!outputs.ok()) {
    return make_error(outputs.error().code, "'" + path + "': " + outputs.error().message);
  }
  OnnxOutputs ran;
  ran.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<NpyView> views;
  for (onnx::TensorData& tensor : *outputs) {
    if (onnx::has_16_bits(tensor.type)) {
      const std::string name = tensor.name;
      MANTISSA_ASSIGN(tensor, onnx::widened(tensor));
      tensor.name = name;
    }
    MANTISSA_ASSIGN(NpyView view, onnx::to_array(tensor));
    ran.outputs.push_back({view.name, npy_type_name(view.type), view.shape});
    views.push_back(std::move(view));
  }
  MANTISSA_RETURN_IF_ERROR(write_npz(config.out, views));
  return ran;
}

}  // namespace mantissa
