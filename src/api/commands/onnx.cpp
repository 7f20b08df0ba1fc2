#include "mantissa/onnx.h"

#include <algorithm>
#include <chrono>

#include "api/outcome.h"
#include "api/settings/settings.h"
#include "base/system/thread_pool.h"
#include "formats/arrays/npz.h"
#include "onnx/evaluate/evaluate.h"
#include "onnx/files/arrays.h"
#include "onnx/files/reader.h"
#include "run/settings/run_config.h"

namespace mantissa {
namespace {

struct RunSettings {
  std::string inputs;
  std::string out;
  int threads = 1;
};

Result<RunSettings> run_settings(const Settings& settings) {
  MANTISSA_RETURN_IF_ERROR(check_known("run", settings));
  RunSettings result;
  result.threads = processors();
  for (const auto& [name, text] : settings) {
    if (name == "inputs") result.inputs = text;
    if (name == "out") result.out = text;
    if (name == "threads") {
      MANTISSA_ASSIGN(const int64_t threads, parse_integer(name, text, 0, 256));
      if (threads > 0) result.threads = static_cast<int>(threads);
    }
  }
  if (result.inputs.empty()) return invalid_input("name a file with the inputs: --inputs in.npz");
  if (result.out.empty()) return invalid_input("name a file for the outputs: --out out.npz");
  return result;
}

Result<OnnxRunOutcome> run(const std::string& path, const Settings& given) {
  MANTISSA_ASSIGN(const RunSettings settings, run_settings(given));
  MANTISSA_ASSIGN(const onnx::ModelData model, onnx::read_model(path));
  MANTISSA_ASSIGN(std::vector<NpyArray> arrays, read_npz(settings.inputs));
  onnx::Tensors inputs;
  for (NpyArray& array : arrays) {
    const std::string name = array.name;
    inputs.emplace(name, onnx::to_tensor(std::move(array)));
  }
  ThreadPool pool(settings.threads);
  const auto start = std::chrono::steady_clock::now();
  const auto outputs = onnx::evaluate(model, inputs, pool);
  if (!outputs.ok()) {
    return make_error(outputs.error().code, "'" + path + "': " + outputs.error().message);
  }
  OnnxRunOutcome outcome;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<NpyView> views;
  for (const onnx::TensorData& tensor : *outputs) {
    MANTISSA_ASSIGN(NpyView view, onnx::to_array(tensor));
    outcome.outputs.push_back({view.name, npy_type_name(view.type), view.shape});
    views.push_back(std::move(view));
  }
  MANTISSA_RETURN_IF_ERROR(write_npz(settings.out, views));
  return outcome;
}

}  // namespace

OnnxRunOutcome run_onnx(const std::string& path, const Settings& settings) {
  Result<OnnxRunOutcome> outcome = run(path, settings);
  return outcome.ok() ? std::move(*outcome) : refused<OnnxRunOutcome>(outcome.error());
}

}  // namespace mantissa
