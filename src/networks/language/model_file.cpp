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
#include "networks/language/readers.h"

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

std::string real_text(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", number);
  return text.data();
}

std::string network_line(const LanguageModelFile& file) {
  const LlamaSizes& sizes = file.sizes;
  std::string line = with_commas(sizes.layers) + " layers of " + with_commas(sizes.channels) +
                     " channels, " + with_commas(sizes.inner) + " between gated layers; " +
                     with_commas(sizes.heads) + " heads of " + with_commas(sizes.head_channels) +
                     ", " + with_commas(sizes.key_heads) + " of keys and values; rotary base " +
                     real_text(sizes.rotary_base) + ", epsilon " + real_text(sizes.epsilon);
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

}  // namespace

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
      file.chat ? "chat template: " + describe(*file.chat) : "no chat template that is known"};
  for (const std::string& part : first_of(file.lacks)) {
    lines.push_back("asks for what is not there: " + part);
  }
  return lines;
}

}  // namespace mantissa
