#include "api/inference/inference_config.h"

#include <filesystem>

#include "base/files/file_system.h"
#include "run/settings/run_folder.h"

namespace mantissa {

Result<std::string> network_file(const std::string& checkpoint) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(checkpoint));
  if (kind != PathKind::kFolder) return checkpoint;
  return (std::filesystem::path(checkpoint) / kModelFile).string();
}

Status find_checkpoint(std::string& checkpoint) {
  if (checkpoint.empty()) {
    return invalid_input(
        "--checkpoint: name the folder of a run, its model.safetensors, or an exported .onnx file");
  }
  return assign(network_file(checkpoint), checkpoint);
}

}  // namespace mantissa
