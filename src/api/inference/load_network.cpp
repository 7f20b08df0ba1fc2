#include "api/inference/load_network.h"

#include "api/inference/inference_config.h"
#include "start/load_language_model.h"

namespace mantissa {

Result<FrozenNetwork> load_network(const std::string& checkpoint, const ModelFileChoices& choices,
                                   int64_t usual) {
  if (!checkpoint.empty()) {
    MANTISSA_ASSIGN(const bool is_imported, is_imported_language_model(checkpoint));
    if (is_imported) {
      return load_language_model(checkpoint, choices.format.value_or(*parse_format("fp32")),
                                 choices.sequence, usual);
    }
  }
  std::string path = checkpoint;
  MANTISSA_RETURN_IF_ERROR(find_checkpoint(path));
  if (choices.format || choices.sequence != 0) {
    return invalid_input(std::string(choices.format ? "format" : "sequence") + ": " + checkpoint +
                         " has its own, with which it was trained; the setting is for files of "
                         "language models that import reads or has written");
  }
  return load_frozen(path);
}

}  // namespace mantissa
