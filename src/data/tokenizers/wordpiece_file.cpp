// Files of WordPiece tokenizers.
#include <nlohmann/json.hpp>

#include "base/files/file_system.h"
#include "data/tokenizers/tokenizer_files.h"
#include "data/tokenizers/wordpiece.h"
#include "formats/json_text.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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

// A folder without tokenizer.json and vocab.txt may have a tokenizer of another kind.
Status check_no_other_kind(const fs::path& folder) {
  MANTISSA_ASSIGN(const bool has_pieces, is_there(folder / "vocab.txt"));
  if (has_pieces) return {};
  for (const char* other :
       {"spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "vocab.json", "merges.txt"}) {
    MANTISSA_ASSIGN(const bool there, is_there(folder / other));
    if (!there) continue;
    return invalid_input((folder / other).string() +
                         ": is of a tokenizer of another kind; WordPiece is the one that is read: "
                         "tokenizer.json or vocab.txt");
  }
  return {};
}

Result<WordPiece> read_tokenizer(const fs::path& path) {
  MANTISSA_ASSIGN(const std::string text, read_tokenizer_text(path));
  const bool is_json = path.extension() == ".json";
  MANTISSA_ASSIGN(const TokenizerConfig config,
                  read_tokenizer_config(path.parent_path(), !is_json));
  if (is_json) {
    try {
      return parse_tokenizer_json(parse_json(text, kMostPieces), config);
    } catch (const json::exception&) {
      return invalid_input("is no tokenizer.json");
    }
  }
  std::vector<std::string> pieces = lines_of(text);
  MANTISSA_ASSIGN(const WordPieceOptions options, vocabulary_options(config, pieces));
  return WordPiece::create(std::move(pieces), options);
}

}  // namespace

Result<WordPiece> read_wordpiece(const fs::path& path) {
  fs::path file = path;
  MANTISSA_ASSIGN(const PathKind kind, path_kind(path));
  if (kind == PathKind::kFolder) {
    file = path / "tokenizer.json";
    MANTISSA_ASSIGN(const bool there, is_there(file));
    if (!there) file = path / "vocab.txt";
    if (!there) MANTISSA_RETURN_IF_ERROR(check_no_other_kind(path));
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
  json entry = {{"kind", "wordpiece"},
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
                {"pieces", tokenizer.model_pieces()}};
  // Files without these entries come from earlier versions, or from tokenizers without them.
  if (options.most_tokens > 0) entry["most_tokens"] = options.most_tokens;
  if (options.added) {
    entry["added"] = json::array();
    for (const AddedToken& token : *options.added) entry["added"].push_back(to_json(token));
  }
  return entry.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<WordPiece> parse_wordpiece(const std::string& text) {
  try {
    const json entry = parse_json(text);
    if (entry.value("kind", "wordpiece") != "wordpiece") {
      return invalid_input("its tokenizer is " + entry.at("kind").get<std::string>() +
                           ", and no WordPiece, which encoders and texts with labels have");
    }
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
    options.most_tokens = entry.value("most_tokens", options.most_tokens);
    if (entry.contains("added")) {
      options.added.emplace();
      for (const json& token : entry.at("added")) options.added->push_back(added_token(token));
    }
    return WordPiece::create(entry.at("pieces").get<std::vector<std::string>>(), options);
  } catch (const json::exception&) {
    return invalid_input("its tokenizer is damaged");
  }
}

}  // namespace mantissa
