// Files of WordPiece tokenizers.
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/file_system.h"
#include "data/wordpiece.h"
#include "formats/json_text.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMostTokenizerBytes = int64_t{64} << 20;

Result<std::string> read_text(const fs::path& path) {
  MANTISSA_ASSIGN(const auto bytes, read_file(path, kMostTokenizerBytes));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// A piece on each line; its number is the line's.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

// The pieces of an object from pieces to numbers, which are 0, 1, 2 ...
Result<std::vector<std::string>> pieces_of(const json& vocabulary) {
  std::vector<std::string> pieces(vocabulary.size());
  for (const auto& [piece, number] : vocabulary.items()) {
    const bool fits = number.is_number_unsigned() && number.get<uint64_t>() < pieces.size() &&
                      pieces[number.get<uint64_t>()].empty();
    if (!fits) {
      return invalid_input("the numbers of its " + std::to_string(pieces.size()) +
                           " pieces are not 0 to " + std::to_string(pieces.size() - 1) +
                           ", each once: see '" + piece + "'");
    }
    pieces[number.get<uint64_t>()] = piece;
  }
  return pieces;
}

// null, or left out, means as `lower_case`.
bool strips_accents(const json& options, bool lower_case) {
  const auto found = options.find("strip_accents");
  return found == options.end() || found->is_null() ? lower_case : found->get<bool>();
}

Result<WordPiece> from_tokenizer_json(const json& file) {
  const json& model = file.at("model");
  const std::string kind = model.value("type", "");
  if (kind != "WordPiece") {
    return invalid_input("its model is '" + kind + "'; WordPiece is the one that is read");
  }
  const json& normalizer = file.at("normalizer");
  const std::string normal = normalizer.is_object() ? normalizer.value("type", "") : "none";
  if (normal != "BertNormalizer") {
    return invalid_input("its normalizer is '" + normal +
                         "'; BertNormalizer is the one that is "
                         "read");
  }
  if (!normalizer.value("clean_text", true)) {
    return invalid_input("clean_text is off, which is not supported");
  }
  WordPieceOptions options;
  options.lower_case = normalizer.value("lowercase", true);
  options.strip_accents = strips_accents(normalizer, options.lower_case);
  options.split_chinese = normalizer.value("handle_chinese_chars", true);
  options.unknown = model.value("unk_token", options.unknown);
  options.continuation = model.value("continuing_subword_prefix", options.continuation);
  options.longest_word = model.value("max_input_chars_per_word", options.longest_word);
  MANTISSA_ASSIGN(std::vector<std::string> pieces, pieces_of(model.at("vocab")));
  return WordPiece::create(std::move(pieces), options);
}

// tokenizer_config.json beside vocab.txt, if it is there.
Result<WordPieceOptions> options_beside(const fs::path& vocabulary) {
  WordPieceOptions options;
  const fs::path path = vocabulary.parent_path() / "tokenizer_config.json";
  MANTISSA_ASSIGN(const bool there, is_there(path));
  if (!there) return options;
  MANTISSA_ASSIGN(const std::string text, read_text(path));
  try {
    const json config = parse_json(text);
    options.lower_case = config.value("do_lower_case", options.lower_case);
    options.strip_accents = strips_accents(config, options.lower_case);
    options.split_chinese = config.value("tokenize_chinese_chars", options.split_chinese);
  } catch (const json::exception&) {
    return invalid_input(path.string() + ": is damaged");
  }
  return options;
}

Result<WordPiece> read_tokenizer(const fs::path& path) {
  MANTISSA_ASSIGN(const std::string text, read_text(path));
  if (path.extension() == ".json") {
    try {
      return from_tokenizer_json(parse_json(text, kMostPieces));
    } catch (const json::exception&) {
      return invalid_input("is no tokenizer.json");
    }
  }
  MANTISSA_ASSIGN(const WordPieceOptions options, options_beside(path));
  return WordPiece::create(lines_of(text), options);
}

}  // namespace

Result<WordPiece> read_wordpiece(const fs::path& path) {
  fs::path file = path;
  MANTISSA_ASSIGN(const PathKind kind, path_kind(path));
  if (kind == PathKind::kFolder) {
    file = path / "tokenizer.json";
    MANTISSA_ASSIGN(const bool there, is_there(file));
    if (!there) file = path / "vocab.txt";
  }
  auto tokenizer = read_tokenizer(file);
  if (tokenizer.ok()) return tokenizer;
  Error error = tokenizer.error();
  if (error.message.find(file.string()) == std::string::npos) {
    error.message = file.string() + ": " + error.message;
  }
  return error;
}

std::string to_json(const WordPiece& tokenizer) {
  const WordPieceOptions& options = tokenizer.options();
  return json({{"kind", "wordpiece"},
               {"lower_case", options.lower_case},
               {"strip_accents", options.strip_accents},
               {"split_chinese", options.split_chinese},
               {"longest_word", options.longest_word},
               {"unknown", options.unknown},
               {"first", options.first},
               {"last", options.last},
               {"padding", options.padding},
               {"mask", options.mask},
               {"continuation", options.continuation},
               {"pieces", tokenizer.pieces()}})
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<WordPiece> parse_wordpiece(const std::string& text) {
  try {
    const json entry = parse_json(text);
    WordPieceOptions options;
    entry.at("lower_case").get_to(options.lower_case);
    entry.at("strip_accents").get_to(options.strip_accents);
    entry.at("split_chinese").get_to(options.split_chinese);
    entry.at("longest_word").get_to(options.longest_word);
    entry.at("unknown").get_to(options.unknown);
    entry.at("first").get_to(options.first);
    entry.at("last").get_to(options.last);
    entry.at("padding").get_to(options.padding);
    entry.at("mask").get_to(options.mask);
    entry.at("continuation").get_to(options.continuation);
    return WordPiece::create(entry.at("pieces").get<std::vector<std::string>>(), options);
  } catch (const json::exception&) {
    return invalid_input("its tokenizer is damaged");
  }
}

}  // namespace mantissa
