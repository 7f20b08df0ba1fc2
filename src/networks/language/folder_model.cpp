// Language models in folders of Hugging Face's transformers.
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/files/file_system.h"
#include "base/files/text_file.h"
#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "formats/arrays/safetensors_header.h"
#include "formats/arrays/safetensors_model.h"
#include "formats/json_text.h"
#include "networks/language/families.h"
#include "networks/language/layout_names.h"
#include "networks/language/readers.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMostConfigBytes = int64_t{1} << 20;

Status take_texts(const fs::path& folder, LanguageModelFile& model) {
  model.tokenizer_kind = "tokenizer.json";
  auto tokenizer = read_byte_bpe(folder);
  if (tokenizer.ok()) {
    const PreTokenizer kind = tokenizer->options().pre_tokenizer;
    model.tokenizer_kind += ", " + std::string(pre_tokenizer_name(kind));
    model.tokenizer = std::move(*tokenizer);
  } else {
    model.lacks.push_back(tokenizer.error().message);
  }
  MANTISSA_ASSIGN(const std::string jinja, read_chat_template(folder));
  take_chat(jinja, "chat_template", model);
  return {};
}

// The name in the layout of a tensor in a file: GPT-2's have "transformer." before them, or not.
std::string layout_name(DecoderLayout layout, const std::string& name) {
  constexpr std::string_view kFront = "transformer.";
  const bool lacks_front = layout == DecoderLayout::kGpt2 && !name.starts_with(kFront) &&
                           !name.starts_with("lm_head.");
  return lacks_front ? std::string(kFront) + name : name;
}

// A matrix [rows, columns], as [columns, rows].
std::vector<float> transposed(const std::vector<float>& numbers, int64_t rows) {
  std::vector<float> turned(numbers.size());
  const auto columns = std::ssize(numbers) / rows;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) turned[k * rows + i] = numbers[i * columns + k];
  }
  return turned;
}

// The tensors, with the shapes that the network has, and their numbers.
void take_tensors(const std::shared_ptr<const SafetensorsModel>& tensors, LanguageModelFile& model) {
  std::map<std::string, int64_t> rows_of_turned;  // by the name in the file
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors->tensors()) {
    ModelTensor taken = {layout_name(model.sizes.layout, name), name, tensor.dtype, tensor.shape};
    const bool is_turned = taken.shape.size() == 2 &&
                           is_transposed_in_folders(model.sizes.layout, taken.name);
    if (is_turned) {
      rows_of_turned[name] = taken.shape[0];
      std::swap(taken.shape[0], taken.shape[1]);
    }
    if (!names.insert(taken.name).second) {
      model.lacks.push_back("tensor " + readable_name(name) + " with and without 'transformer.'");
    }
    model.tensors.push_back(std::move(taken));
  }
  model.floats = [tensors, rows_of_turned](const std::string& name) -> Result<std::vector<float>> {
    MANTISSA_ASSIGN(std::vector<float> numbers, tensors->floats(name));
    const auto rows = rows_of_turned.find(name);
    if (rows == rows_of_turned.end() || numbers.empty()) return numbers;
    return transposed(numbers, rows->second);
  };
}

// The entries of config.json; null: there is no such file.
Result<json> read_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  MANTISSA_ASSIGN(const bool there, is_there(path));
  if (!there) return json();
  MANTISSA_ASSIGN(const std::string text, read_text_file(path, kMostConfigBytes));
  json config = parse_json(text);
  if (config.is_object()) return config;
  return invalid_input(path.string() + ": is no JSON object");
}

Result<fs::path> weights_of(const fs::path& folder) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    MANTISSA_ASSIGN(const bool there, is_there(folder / name));
    if (there) return folder / name;
  }
  return invalid_input(folder.string() +
                       ": has neither model.safetensors nor model.safetensors.index.json");
}

}  // namespace

Result<bool> has_decoder(const fs::path& folder) {
  const auto config = read_config(folder);
  if (!config.ok() || !config->is_object()) return false;  // who reads it says so
  const auto named = [&](const char* key) {
    const auto found = config->find(key);
    return found != config->end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string type = named("model_type");
  if (find_family(type) != nullptr) return true;
  const auto classes = config->find("architectures");
  if (classes == config->end() || !classes->is_array() || classes->empty()) return false;
  const json& name = classes->front();
  if (!name.is_string()) return false;
  const std::string text = name.get<std::string>();
  return text.ends_with("ForCausalLM") || text.ends_with("LMHeadModel");
}

Result<LanguageModelFile> read_model_folder(const fs::path& folder) {
  MANTISSA_ASSIGN(const json config, read_config(folder));
  LanguageModelFile model;
  const std::string path = (folder / "config.json").string();
  try {
    model.architecture = config.value("model_type", "");
    const ModelFamily* const family = find_family(model.architecture);
    if (family == nullptr) {
      model.lacks.push_back(unknown_family("model_type", model.architecture));
    } else {
      model.sizes.layout = family->layout;
    }
    const Status taken = take_config(config, model);
    if (!taken.ok()) {
      return invalid_input(path + ": " +
                           (family == nullptr ? model.lacks[0] : taken.error().message));
    }
  } catch (const json::exception&) {
    return invalid_input(path + ": an entry has another type than it should");
  }
  model.name = fs::absolute(folder).lexically_normal().filename().string();
  MANTISSA_RETURN_IF_ERROR(take_texts(folder, model));
  MANTISSA_ASSIGN(const fs::path weights, weights_of(folder));
  MANTISSA_ASSIGN(SafetensorsModel opened, SafetensorsModel::open(weights));
  take_tensors(std::make_shared<const SafetensorsModel>(std::move(opened)), model);
  return model;
}

}  // namespace mantissa
