#include "formats/arrays/safetensors_model.h"

#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/text_file.h"
#include "base/float16.h"
#include "base/sizes.h"
#include "formats/arrays/safetensors.h"
#include "formats/arrays/safetensors_start.h"
#include "formats/json_text.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostIndexBytes = int64_t{8} << 20;
constexpr size_t kMostFiles = 512;
constexpr int64_t kMostEntries = 100'000;

// Tensors and the names of their files.
using WeightMap = std::map<std::string, std::string>;

Result<WeightMap> read_index(const fs::path& path) {
  MANTISSA_ASSIGN(const std::string text, read_text_file(path, kMostIndexBytes));
  const nlohmann::json index = parse_json(text, kMostEntries);
  const auto damaged = [&](const std::string& what) {
    return invalid_input("'" + path.string() + "': " + what);
  };
  const auto found = index.is_object() ? index.find("weight_map") : index.end();
  if (found == index.end() || !found->is_object()) {
    return damaged("is no index of safetensors files: it has no weight_map");
  }
  WeightMap files;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string()) {
      return damaged("the file of tensor " + readable_name(tensor) + " is no text");
    }
    const std::string name = file.get<std::string>();
    const bool is_beside = name.ends_with(".safetensors") && name.find('\0') == std::string::npos &&
                           fs::path(name).filename() == name;
    if (!is_beside) {
      return damaged("the file of tensor " + readable_name(tensor) + " is " + readable_name(name) +
                     "; it should be a safetensors file beside the index");
    }
    files.emplace(tensor, name);
  }
  return files;
}

}  // namespace

Result<std::vector<float>> floats_of(const std::string& name, std::string_view dtype,
                                     std::span<const std::byte> data) {
  const int64_t bytes = safetensors_dtype_bytes(dtype);
  if (dtype != "F32" && dtype != "F16" && dtype != "BF16") {
    return invalid_input("'" + name + "' has the type " + std::string(dtype) +
                         "; F32, F16 and BF16 can be imported");
  }
  std::vector<float> floats(data.size() / static_cast<size_t>(bytes));
  if (dtype == "F32") {
    if (!data.empty()) std::memcpy(floats.data(), data.data(), data.size());
    return floats;
  }
  const auto convert = dtype == "F16" ? from_float16 : from_bfloat16;
  for (size_t i = 0; i < floats.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, data.data() + 2 * i, sizeof bits);
    floats[i] = convert(bits);
  }
  return floats;
}

Result<std::map<std::string, SafetensorsModel::Tensor>> SafetensorsModel::add_file(
    const fs::path& path) {
  MANTISSA_ASSIGN(InputFile opened, InputFile::open(path));
  const auto read = [&](std::span<std::byte> out) { return opened.read_exactly(out); };
  MANTISSA_ASSIGN(SafetensorsStart start, read_safetensors_start({path, opened.size(), read}));
  std::map<std::string, Tensor> tensors;
  for (SafetensorsEntry& entry : start.header.entries) {
    tensors.emplace(std::move(entry.name),
                    Tensor{std::move(entry.dtype), std::move(entry.shape), files_.size(),
                           start.data_begin + entry.begin, entry.end - entry.begin});
  }
  files_.push_back(std::make_shared<const InputFile>(std::move(opened)));
  paths_.push_back(path);
  return tensors;
}

Result<SafetensorsModel> SafetensorsModel::open(const fs::path& path) {
  SafetensorsModel model;
  if (path.extension() != ".json") {
    MANTISSA_ASSIGN(model.tensors_, model.add_file(path));
    return model;
  }
  MANTISSA_ASSIGN(const WeightMap map, read_index(path));
  std::map<std::string, std::map<std::string, Tensor>> by_file;
  for (const auto& [tensor, file] : map) {
    if (!by_file.contains(file)) {
      if (by_file.size() == kMostFiles) {
        return invalid_input("'" + path.string() + "': names more than " +
                             std::to_string(kMostFiles) + " files");
      }
      MANTISSA_ASSIGN(by_file[file], model.add_file(path.parent_path() / file));
    }
    const auto found = by_file[file].find(tensor);
    if (found == by_file[file].end()) {
      return invalid_input("'" + path.string() + "': tensor " + readable_name(tensor) +
                           " is not in " + file);
    }
    model.tensors_.emplace(tensor, found->second);
  }
  return model;
}

Result<std::vector<float>> SafetensorsModel::floats(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return invalid_input("has no tensor " + readable_name(name));
  const Tensor& tensor = found->second;
  try {
    std::vector<std::byte> data(static_cast<size_t>(tensor.bytes));
    MANTISSA_RETURN_IF_ERROR(files_[tensor.file]->read_at(tensor.begin, data));
    return floats_of(name, tensor.dtype, data);
  } catch (const std::bad_alloc&) {
    return out_of_memory("tensor " + readable_name(name), 3 * tensor.bytes);
  }
}

}  // namespace mantissa
