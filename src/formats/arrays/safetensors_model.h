// The tensors of a model in one safetensors file, or in several that an index names
// (model.safetensors.index.json, as Hugging Face's transformers writes large models). Tensors are
// read one by one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/atomic_file.h"
#include "base/result.h"

namespace mantissa {

class SafetensorsModel {
 public:
  struct Tensor {
    std::string dtype;
    std::vector<int64_t> shape;
    size_t file = 0;  // which of the files
    int64_t begin = 0, bytes = 0;
  };

  // `path`: a safetensors file, or an index, NAME.json, with the files that it names beside it.
  // Errors name the file: files that are no safetensors, an index that is damaged, names more than
  // 512 files, one elsewhere than beside it, or a tensor that its file does not have.
  static Result<SafetensorsModel> open(const std::filesystem::path& path);

  // By name. Of several files only tensors that the index names.
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const std::vector<std::filesystem::path>& files() const { return paths_; }

  // The numbers of a tensor: F32, F16 or BF16. Errors: other dtypes, and those of reading.
  Result<std::vector<float>> floats(const std::string& name) const;

 private:
  using Files = std::vector<std::shared_ptr<const InputFile>>;

  // Opens a file, and returns all of its tensors.
  Result<std::map<std::string, Tensor>> add_file(const std::filesystem::path& path);

  std::map<std::string, Tensor> tensors_;
  std::vector<std::filesystem::path> paths_;
  Files files_;
};

// The numbers of a tensor of dtype F32, F16 or BF16. An error names another dtype.
Result<std::vector<float>> floats_of(const std::string& name, std::string_view dtype,
                                     std::span<const std::byte> data);

}  // namespace mantissa
