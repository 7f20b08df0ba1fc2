#include "start/language/source.h"

#include <utility>

namespace mantissa {

Result<LanguageSource> read_language_source(const std::string& path) {
  LanguageSource source;
  MANTISSA_ASSIGN(source.file, read_trained(path));
  MANTISSA_ASSIGN(TrainedNetwork found, network_of(source.file));
  if (!found.network) {
    return invalid_input(path +
                         ": is a checkpoint; name the folder of its run, once it has ended, or its "
                         "model.safetensors");
  }
  source.network = std::move(*found.network);
  MANTISSA_ASSIGN(source.vocabulary, vocabulary_of(source.file));
  return source;
}

}  // namespace mantissa
