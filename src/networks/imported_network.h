// Networks from ONNX files, and the file that `mantissa import` makes of one (docs/onnx.md).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/import/import.h"
#include "runtime/named_parameters.h"

namespace mantissa {

inline constexpr const char* kImportedKind = "mantissa imported network 1";
// Entries of the metadata.
inline constexpr const char* kTokenizerEntry = "tokenizer";
inline constexpr const char* kSmoothedEntry = "smoothed";  // the text, its hash and its tokens

// Whether a path names an ONNX model.
bool is_onnx_file(const std::filesystem::path& path);

// Whether a folder has the config.json that Hugging Face's transformers writes beside weights.
Result<bool> is_model_folder(const std::filesystem::path& folder);

// The error where a file of the program is wanted, and the path names a model of another one.
Error not_imported(const std::filesystem::path& path);

// Reads a model and imports it. Errors name the file; for unsupported models they are a list.
Result<onnx::ImportedNetwork> import_file(const std::filesystem::path& path,
                                          const onnx::ImportOptions& options);

// An error if the model has several outputs, none was chosen, and one is to get this many classes.
Status check_output_chosen(const std::vector<std::string>& outputs, const std::string& chosen,
                           int64_t classes);

// Gives the network another number of classes (with_classes): parameters of replaced layers are
// left out, and a run draws them by its seed. `chosen`: the output that the options named. An error
// if it has several outputs.
Status set_classes(int64_t classes, const std::string& layers, const std::string& chosen,
                   onnx::ImportedNetwork& imported);

// Views of the network's parameters.
std::vector<NamedParameter> named_parameters(const onnx::ImportedNetwork& imported);

// Writes the network as JSON and its parameters as F32, F64 and blocks (U8), by name: a safetensors
// file that `train --from` reads. `source`: the path that the model came from. `entries`: more
// metadata, such as the JSON of the network's tokenizer.
Status write_imported(const std::filesystem::path& path, const onnx::ImportedNetwork& imported,
                      const std::string& source,
                      const std::map<std::string, std::string>& entries = {});

}  // namespace mantissa
