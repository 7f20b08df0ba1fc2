#include "api/commands/export_language.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "api/target.h"
#include "start/language/source.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

bool any_matrix(const WrittenModel& model, bool (*is_such)(const WrittenTensor&)) {
  return std::ranges::any_of(model.tensors, [&](const WrittenTensor& tensor) {
    return tensor.is_matrix() && is_such(tensor);
  });
}

// The type that the file gets if nobody chooses one.
WeightType own_type(const LanguageExport& request, const WrittenModel& model) {
  if (request.target != LanguageTarget::kGguf) return WeightType::kF32;
  const auto in_blocks = [](const WrittenTensor& tensor) { return tensor.is_in_blocks(); };
  const auto has_bytes = [](const WrittenTensor& tensor) {
    return tensor.from.type == DataType::kInt8;
  };
  if (any_matrix(model, in_blocks)) return WeightType::kBlocks;
  return any_matrix(model, has_bytes) ? WeightType::kQ8_0 : WeightType::kF32;
}

Result<WeightType> weight_type(const LanguageExport& request, const WrittenModel& model) {
  const WeightType own = own_type(request, model);
  if (request.weights.empty()) return own;
  constexpr std::pair<std::string_view, WeightType> kTypes[] = {{"f32", WeightType::kF32},
                                                                {"f16", WeightType::kF16},
                                                                {"bf16", WeightType::kBF16},
                                                                {"q8_0", WeightType::kQ8_0},
                                                                {"blocks", WeightType::kBlocks}};
  const auto* found = std::ranges::find(kTypes, request.weights,
                                        [](const auto& type) { return type.first; });
  const bool is_gguf = request.target == LanguageTarget::kGguf;
  const bool is_known = found != std::end(kTypes);
  if (is_known && is_gguf && found->second == WeightType::kBlocks && own != WeightType::kBlocks) {
    return invalid_input("--weights blocks: " + request.path + " has no weights in blocks");
  }
  const bool is_of_gguf = is_known && (found->second == WeightType::kQ8_0 ||
                                       found->second == WeightType::kBlocks);
  if (!is_known || (is_of_gguf && !is_gguf)) {
    return invalid_input("--weights: '" + request.weights + "' is none; choose f32, f16" +
                         (is_gguf ? ", bf16, q8_0 or blocks" : " or bf16"));
  }
  return found->second;
}

std::vector<std::string> notes_of(const LanguageExport& request, const LanguageSource& source,
                                  const WrittenModel& model, WeightType type) {
  std::vector<std::string> notes;
  const auto merged = std::ranges::count_if(model.tensors, &WrittenTensor::is_merged);
  if (merged > 0) {
    notes.push_back(std::to_string(merged) + " layers are merged with their adapters");
  }
  if (model.tokenizer == nullptr) {
    notes.push_back(source.vocabulary
                        ? "the tokens are not in the file: only byte-level BPE is written"
                        : "there is no tokenizer: the source has none");
  } else if (!model.chat) {
    notes.push_back(source.vocabulary->chat_refused().empty()
                        ? "there is no chat template: the source has none"
                        : "there is no chat template: the source's was not known");
  }
  if (request.positions == 0 && model.sizes.layout == DecoderLayout::kLlama) {
    notes.push_back("texts of up to " + std::to_string(model.positions) +
                    " tokens, the network's sequence; --positions says that more are possible");
  }
  const bool rounds = type == WeightType::kF16 || type == WeightType::kBF16;
  if (rounds) {
    notes.push_back(std::string("matrices are rounded to ") + weight_type_name(type));
  }
  return notes;
}

// "smollm2" of runs/smollm2/model.safetensors and of smollm2.safetensors.
std::string name_of(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.filename() == "model.safetensors" ? whole.parent_path().filename().string()
                                                 : whole.stem().string();
}

Result<WriterNotes> write(const LanguageExport& request, const LanguageSource& source,
                          const WrittenModel& model, WeightType type) {
  if (request.target == LanguageTarget::kPeft) {
    return write_adapters(request.out, source.network, source.file.parameters, request.base);
  }
  if (request.target == LanguageTarget::kHuggingFace) {
    return write_model_folder(request.out, model, type);
  }
  return write_gguf_model(request.out, model, name_of(request.path), type);
}

Status check_request(const LanguageExport& request) {
  if (request.out.empty()) {
    const bool is_file = request.target == LanguageTarget::kGguf;
    return invalid_input(std::string("--out: name the ") + (is_file ? "file" : "folder") +
                         " to write");
  }
  const bool is_peft = request.target == LanguageTarget::kPeft;
  if (!request.base.empty() && !is_peft) return invalid_input("--base: goes with --target peft");
  if (is_peft && !request.weights.empty()) {
    return invalid_input("--weights: adapters are written in float32");
  }
  return request.target == LanguageTarget::kGguf ? check_target("out", request.out) : Status();
}

}  // namespace

Outcome<ExportedModel> export_language_model(const LanguageExport& request) {
  MANTISSA_RETURN_IF_ERROR(check_request(request));
  MANTISSA_ASSIGN(const LanguageSource source, read_language_source(request.path));
  auto made = written_model(source.network, source.file.parameters);
  if (!made.ok()) return invalid_input(request.path + ": " + made.error().message);
  WrittenModel& model = *made;
  const bool has_table = model.sizes.layout == DecoderLayout::kGpt2;
  if (has_table && request.positions > 0 && request.positions != model.positions) {
    return invalid_input("--positions: the network has a table of " +
                         std::to_string(model.positions) + " positions; leave it out");
  }
  if (request.positions > 0) model.positions = request.positions;
  if (source.vocabulary && source.vocabulary->byte_bpe() != nullptr) {
    model.tokenizer = source.vocabulary->byte_bpe();
    model.chat = source.vocabulary->chat();
  }
  MANTISSA_ASSIGN(const WeightType type, weight_type(request, model));
  auto written = write(request, source, model, type);
  if (!written.ok()) return make_error(written.error().code, written.error().message);
  ExportedModel result;
  result.file = request.out;
  result.nodes = std::ssize(source.network.nodes);
  if (request.target != LanguageTarget::kPeft) {
    result.notes = notes_of(request, source, model, type);
  }
  result.notes.insert(result.notes.end(), written->begin(), written->end());
  return result;
}

}  // namespace mantissa
