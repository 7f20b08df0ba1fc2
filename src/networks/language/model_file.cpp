#include "networks/language/model_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "formats/arrays/safetensors_header.h"
#include "formats/json_tree.h"
#include "networks/language/families.h"
#include "networks/language/readers.h"
#include "networks/language/rotary_scaling.h"
#include "ops/sequences/angles.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// A file may call itself anything.
std::string bounded_text(const std::string& text) { return text.substr(0, 100); }

// "8,192"
std::string with_commas(int64_t number) {
  std::string text = std::to_string(number);
  for (int64_t at = std::ssize(text) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string six_digits(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", number);
  return text.data();
}

// How positions are scaled; "": they are not.
std::string scaling_text(const DecoderSizes& sizes) {
  const WholeList& factors = sizes.rotary_factors;
  if (factors.empty()) return "";
  const double most = real_factor(*std::ranges::max_element(factors));
  return std::string(", angles divided by ") + (factors.size() > 1 ? "up to " : "") +
         six_digits(most);
}

std::string network_line(const LanguageModelFile& file) {
  const DecoderSizes& sizes = file.sizes;
  const bool is_llama = sizes.layout == DecoderLayout::kLlama;
  std::string line = with_commas(sizes.layers) + " layers of " + with_commas(sizes.channels) +
                     " channels, " + with_commas(sizes.inner) +
                     (is_llama ? " between gated layers; " : " of inner layers; ") +
                     with_commas(sizes.heads) + " heads";
  if (is_llama) {
    line += " of " + with_commas(sizes.head_channels) + ", " + with_commas(sizes.key_heads) +
            " of keys and values" + (sizes.head_norms ? ", with norms" : "") + "; rotary base " +
            six_digits(sizes.rotary_base) + scaling_text(sizes) + ", epsilon ";
  } else {
    line += "; a table of positions, epsilon ";
  }
  line += six_digits(sizes.epsilon);
  if (file.positions > 1) line += "; " + with_commas(file.positions) + " positions";
  return line;
}

std::string tensor_line(const LanguageModelFile& file) {
  std::map<std::string, int64_t> types;
  double parameters = 0;  // a file may say anything
  for (const ModelTensor& tensor : file.tensors) {
    ++types[tensor.type];
    double count = 1;
    for (const int64_t dim : tensor.shape) count *= static_cast<double>(dim);
    parameters += count;
  }
  std::string list;
  for (const auto& [type, count] : types) {
    list += (list.empty() ? "" : ", ") + with_commas(count) + " " + type;
  }
  return with_commas(std::ssize(file.tensors)) + " tensors (" + list + ") of " +
         with_commas(static_cast<int64_t>(std::min(parameters, 9e18))) +
         " numbers; the classifier " +
         (file.sizes.tied ? "has the embedding's weights" : "has weights of its own");
}

std::string name_of_token(const ByteBpe& tokenizer, int32_t token) {
  return token < 0 ? "none" : json_quoted(tokenizer.tokens()[static_cast<size_t>(token)]);
}

std::string tokenizer_line(const LanguageModelFile& file) {
  const std::string kind = "tokenizer " + bounded_text(file.tokenizer_kind) + ": ";
  if (!file.tokenizer) return kind + "cannot be read";
  const ByteBpe& tokenizer = *file.tokenizer;
  const ByteBpeOptions& options = tokenizer.options();
  const auto special = std::count_if(options.added.begin(), options.added.end(),
                                     [](const AddedToken& token) { return token.special; });
  std::string line = kind + with_commas(std::ssize(tokenizer.tokens())) + " tokens, " +
                     with_commas(special) + " of them special, " +
                     with_commas(tokenizer.merge_count()) + " merges; texts begin with " +
                     name_of_token(tokenizer, options.first) + ", end token " +
                     name_of_token(tokenizer, options.end);
  const std::string missing = tokenizer.bytes_without_token();
  if (missing.empty()) return line;
  line += "; " + std::to_string(missing.size()) + " bytes have no token:";
  for (const char byte : missing) {
    std::array<char, 4> text{};
    std::snprintf(text.data(), text.size(), " %02x", static_cast<uint8_t>(byte));
    line += text.data();
  }
  return line;
}

std::string chat_line(const LanguageModelFile& file) {
  if (file.chat) return "chat template: " + describe(*file.chat);
  if (file.chat_refused.empty()) return "no chat template";
  return "no chat template that is known: " + file.chat_refused;
}

}  // namespace

std::string unknown_family(const char* what, const std::string& family) {
  return std::string(what) + " = " + json_quoted(bounded_text(family)) + ": " + kKnownFamilies;
}

void take_chat(const std::string& jinja, const char* entry, LanguageModelFile& model) {
  if (jinja.empty()) return;
  auto chat = chat_template_of(jinja);
  if (chat.ok()) {
    model.chat = std::move(*chat);
  } else {
    model.chat_refused = std::string(entry) + ": " + chat.error().message;
  }
}

bool has_angles(const DecoderSizes& sizes) {
  constexpr int64_t kMostChannels = 4096;
  return sizes.head_channels <= kMostChannels && sizes.head_channels % 2 == 0 &&
         sizes.rotary_base >= ops::kLeastBase && sizes.rotary_base <= ops::kMostBase;
}

std::vector<std::string> first_of(const std::vector<std::string>& lacks) {
  constexpr size_t kMost = 10, kMostBytes = 300;
  std::vector<std::string> list;
  for (size_t i = 0; i < std::min(lacks.size(), kMost); ++i) {
    list.push_back(lacks[i].substr(0, kMostBytes));
  }
  if (lacks.size() > kMost) list.push_back(std::to_string(lacks.size() - kMost) + " more");
  return list;
}

Result<bool> is_model_file(const fs::path& path) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(path));
  if (kind == PathKind::kFolder) return has_decoder(path);
  if (kind != PathKind::kFile) return path.extension() == ".gguf";
  if (path.extension() == ".gguf") return true;
  auto file = InputFile::open(path);
  std::array<std::byte, 4> magic{};
  return file.ok() && file->read_exactly(magic).ok() &&
         std::memcmp(magic.data(), "GGUF", magic.size()) == 0;
}

Result<LanguageModelFile> read_language_model(const fs::path& path) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(path));
  auto model = kind == PathKind::kFolder ? read_model_folder(path) : read_gguf_model(path);
  if (model.ok()) model->path = path.string();
  return model;
}

std::vector<std::string> describe(const LanguageModelFile& file) {
  std::vector<std::string> lines = {
      bounded_text(file.architecture) + (file.name.empty() ? "" : ": " + bounded_text(file.name)),
      network_line(file), tensor_line(file), tokenizer_line(file),
      chat_line(file)};
  for (const std::string& part : first_of(file.lacks)) {
    lines.push_back("asks for what is not there: " + part);
  }
  return lines;
}

}  // namespace mantissa
