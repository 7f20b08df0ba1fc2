#include "start/language/float_model.h"

#include <utility>

#include "networks/imported_network.h"
#include "networks/language/written_model.h"
#include "plan/programs/state_layout.h"
#include "start/float_state.h"
#include "start/language/source.h"

namespace mantissa {
namespace {

Result<FloatLanguageModel> float_model(const LanguageSource& source) {
  MANTISSA_RETURN_IF_ERROR(source.network.check_no_blocks("quantize takes trained numbers"));
  MANTISSA_ASSIGN(const WrittenModel model, written_model(source.network, source.file.parameters));
  if (model.sizes.layout != DecoderLayout::kLlama) {
    return invalid_input("its layout is GPT-2's, and weights in blocks are for Llama's");
  }
  if (!source.vocabulary || source.vocabulary->byte_bpe() == nullptr) {
    return invalid_input("its tokens are not of byte-level BPE, which models of import have");
  }
  MANTISSA_ASSIGN(Graph graph, without_adapters(source.network));
  MANTISSA_ASSIGN(State state,
                  State::create(training_layout(graph, kFloatFormat, OptimizerKind::kSgd)));
  FloatLanguageModel result{.graph = std::move(graph),
                            .sizes = model.sizes,
                            .state = std::move(state),
                            .vocabulary = source.vocabulary,
                            .smoothed = {}};
  // Tensors of the model have the order of the graph's parameters.
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const WrittenTensor& tensor = model.tensors[i];
    const std::span<float> numbers = result.numbers(static_cast<int>(i));
    const auto columns = static_cast<size_t>(tensor.columns());
    for (int64_t row = 0; row < tensor.rows(); ++row) {
      row_numbers(tensor, row, numbers.subspan(static_cast<size_t>(row) * columns, columns));
    }
    result.file_bytes += std::ssize(tensor.from.numbers);
  }
  const auto smoothed = source.file.file.metadata.find(kSmoothedEntry);
  if (smoothed != source.file.file.metadata.end()) result.smoothed = smoothed->second;
  return result;
}

}  // namespace

Result<FloatLanguageModel> load_float_language_model(const std::string& path) {
  MANTISSA_ASSIGN(const LanguageSource source, read_language_source(path));
  auto model = float_model(source);
  if (!model.ok()) return make_error(model.error().code, path + ": " + model.error().message);
  return model;
}

}  // namespace mantissa
