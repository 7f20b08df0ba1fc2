#include "report/describe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files/file_system.h"
#include "formats/arrays/safetensors.h"
#include "formats/json_text.h"
#include "numerics/rounding.h"
#include "report/describe_onnx.h"
#include "report/run_record.h"
#include "run/checkpoint.h"
#include "run/settings/run_folder.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

// Largest and mean bit length of |mantissa| of a tensor of integers.
template <typename T>
void add_bit_use(std::span<const std::byte> data, OrderedJson& json) {
  int largest = 0;
  int64_t sum = 0;
  const auto count = static_cast<int64_t>(data.size() / sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    T value = 0;
    std::memcpy(&value, data.data() + i * static_cast<int64_t>(sizeof(T)), sizeof value);
    const int bits = bit_length(magnitude(value));
    largest = std::max(largest, bits);
    sum += bits;
  }
  json["largest_bits"] = largest;
  json["mean_bits"] =
      count == 0
          ? 0
          : std::nearbyint(1000.0 * static_cast<double>(sum) / static_cast<double>(count)) / 1000;
}

// The exponent of a tensor's mantissas; of several (one per output channel) the largest, and the
// smallest.
void add_exponents(std::span<const std::byte> data, OrderedJson& json) {
  std::vector<int16_t> exponents(data.size() / sizeof(int16_t));
  if (exponents.empty()) return;
  std::memcpy(exponents.data(), data.data(), exponents.size() * sizeof(int16_t));
  const auto [smallest, largest] = std::minmax_element(exponents.begin(), exponents.end());
  json["exponent"] = *largest;
  if (exponents.size() > 1) json["smallest_exponent"] = *smallest;
}

OrderedJson tensor_json(const SafetensorsFile& file, const SafetensorsTensor& tensor) {
  OrderedJson json = {{"name", tensor.name},
                      {"type", tensor.dtype},
                      {"shape", tensor.shape},
                      {"bytes", tensor.data.size()}};
  const SafetensorsTensor* exponent = file.find(tensor.name + ".exponent");
  if (exponent != nullptr && exponent->dtype == "I16") add_exponents(exponent->data, json);
  if (tensor.dtype == "I8") add_bit_use<int8_t>(tensor.data, json);
  if (tensor.dtype == "I16") add_bit_use<int16_t>(tensor.data, json);
  if (tensor.dtype == "I32") add_bit_use<int32_t>(tensor.data, json);
  if (tensor.dtype == "I64") add_bit_use<int64_t>(tensor.data, json);
  return json;
}

OrderedJson tensors_json(const SafetensorsFile& file) {
  OrderedJson list = OrderedJson::array();
  for (const SafetensorsTensor& tensor : file.tensors) list.push_back(tensor_json(file, tensor));
  return list;
}

Result<OrderedJson> describe_file(const fs::path& path) {
  MANTISSA_ASSIGN(const SafetensorsFile file, read_safetensors(path));
  const auto entry = [&](const char* key) {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? std::string() : found->second;
  };
  const std::string kind = entry("kind");
  OrderedJson json;
  json["kind"] = kind.starts_with("mantissa checkpoint")         ? "checkpoint"
                 : kind.starts_with("mantissa frozen network")   ? "frozen network"
                 : kind.starts_with("mantissa starting weights") ? "starting weights"
                                                                 : "safetensors";
  std::error_code gone;
  const auto bytes = fs::file_size(path, gone);
  json["path"] = path.string();
  json["bytes"] = gone ? OrderedJson() : OrderedJson(bytes);
  json["sha256"] =
      file.sha256.empty() ? OrderedJson() : OrderedJson(file.sha256);  // verified on reading
  json["metadata"] = OrderedJson::object();
  for (const auto& [key, text] : file.metadata) {
    if (key != "description" && key != "network") json["metadata"][key] = text;
  }
  // A frozen network describes itself by JSON in a text. Only its plain entries are taken.
  const auto description = parse_json(entry("description"));
  if (description.is_object()) {
    for (const auto& [key, value] : description.items()) {
      if (value.is_primitive()) json["metadata"][key] = value;
    }
  }
  json["tensors"] = tensors_json(file);
  return json;
}

// Files that are there, with their sizes; null if that cannot be told.
OrderedJson files_json(const fs::path& folder, const std::vector<int64_t>& checkpoints) {
  OrderedJson list = OrderedJson::array();
  const auto add = [&](const fs::path& path) {
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    if (error == std::errc::no_such_file_or_directory) return;
    list.push_back({{"name", path.filename().string()},
                    {"bytes", error ? OrderedJson() : OrderedJson(bytes)}});
  };
  for (const char* name : kRunFiles) add(folder / name);
  for (const int64_t step : checkpoints) add(checkpoint_path(folder, step));
  return list;
}

Result<OrderedJson> describe_run(const fs::path& folder) {
  MANTISSA_ASSIGN(RunRecord run, read_run(folder));
  MANTISSA_ASSIGN(const std::vector<int64_t> checkpoints, list_checkpoints(folder));
  const auto losses = run.metrics.find("loss");
  OrderedJson json = {{"kind", "run"}, {"path", folder.string()}};
  json["finished"] = !run.summary.empty();
  json["last_reported_step"] = losses == run.metrics.end()
                                   ? OrderedJson()
                                   : OrderedJson(static_cast<int64_t>(losses->second.steps.back()));
  json["newest_checkpoint"] = checkpoints.empty() ? OrderedJson() : OrderedJson(checkpoints.back());
  json["settings"] = run.settings;
  json["summary"] = OrderedJson::object();
  for (const auto& [key, value] : run.summary.items()) {
    if (value.is_primitive()) json["summary"][key] = value;
  }
  json["files"] = files_json(folder, checkpoints);
  const fs::path source =
      checkpoints.empty() ? folder / kModelFile : checkpoint_path(folder, checkpoints.back());
  if (const auto there = is_there(source); !there.ok()) {
    run.problems.push_back(there.error().message);
  } else if (*there) {
    const auto file = read_safetensors(source);
    if (file.ok()) {
      json["tensors_of"] = source.filename().string();
      json["tensors"] = tensors_json(*file);
    } else {
      run.problems.push_back(file.error().message);
    }
  }
  json["problems"] = run.problems;
  return json;
}

}  // namespace

Result<OrderedJson> describe(const fs::path& path,
                             const std::map<std::string, std::vector<int64_t>>& shapes) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(path));
  const bool is_onnx = kind != PathKind::kFolder && path.extension() == ".onnx";
  if (is_onnx) return describe_onnx(path, shapes);
  if (!shapes.empty()) return invalid_input("--shape is for ONNX networks (*.onnx)");
  return kind == PathKind::kFolder ? describe_run(path) : describe_file(path);
}

}  // namespace mantissa
