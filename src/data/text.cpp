#include "data/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "data/code_point.h"
#include "data/sentence_piece.h"

namespace mantissa {
namespace {

constexpr size_t kBytes = 256;

std::string byte_name(size_t byte) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\x%02X", static_cast<unsigned>(byte));
  return text.data();
}

std::string place_text(std::string_view text, size_t at) {
  const auto line = std::count(text.begin(), text.begin() + static_cast<int64_t>(at), '\n') + 1;
  return "line " + std::to_string(line) + ", byte " + std::to_string(at);
}

// Calls visit(character, place) for each. Its error, or the one of text that is no text.
template <typename Visit>
Status for_characters(std::string_view text, const Visit& visit) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.number < 0) {
      return invalid_input(place_text(text, at) + ": is not UTF-8; --tokens bytes takes any bytes");
    }
    if (text[at] == '\0') {
      return invalid_input(place_text(text, at) +
                           ": has a NUL byte, so it is no text; --tokens bytes takes any bytes");
    }
    MANTISSA_RETURN_IF_ERROR(visit(text.substr(at, point.length), at));
    at += point.length;
  }
  return {};
}

Result<std::string> read_text(const std::string& path) {
  MANTISSA_ASSIGN(const auto bytes, read_file(path, kMostTextBytes));
  if (bytes.empty()) return invalid_input("'" + path + "' is empty");
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Where validation begins, and where the test does.
struct Parts {
  int64_t first, second;
  explicit Parts(int64_t count)
      : first(count / 100 * 90 + count % 100 * 90 / 100), second(first + (count - first) / 2) {}
};

Status check_length(const std::string& path, int64_t count, int64_t sequence) {
  const Parts parts(count);
  if (text_example_count(parts.second - parts.first, sequence) >= 1) return {};
  return invalid_input("'" + path + "' has " + std::to_string(count) +
                       " tokens: too few, a twentieth of them is to be a sequence of " +
                       std::to_string(sequence) + " and one more; choose a longer text, or a " +
                       "smaller --sequence");
}

// The vocabulary and a token that stands for what is to be found.
Result<Vocabulary> with_mask(Vocabulary vocabulary) {
  if (vocabulary.tokens() == Tokens::kBytes) {
    return invalid_input("tokens: masked language models know characters, not bytes");
  }
  std::vector<std::string> names = vocabulary.names();
  names.push_back(kMaskName);
  return Vocabulary(std::move(names));
}

Error in_file(const std::string& path, const Error& error) {
  return make_error(error.code, "'" + path + "', " + error.message, error.where);
}

}  // namespace

Result<Tokens> parse_tokens(std::string_view text) {
  for (const Tokens tokens : {Tokens::kCharacters, Tokens::kBytes, Tokens::kPieces}) {
    if (text == tokens_name(tokens)) return tokens;
  }
  return invalid_input("unknown tokens '" + std::string(text) +
                       "'; choose characters, bytes or sentencepiece");
}

std::string_view tokens_name(Tokens tokens) {
  return tokens == Tokens::kBytes    ? "bytes"
         : tokens == Tokens::kPieces ? "sentencepiece"
                                     : "characters";
}

Tokens Vocabulary::tokens() const {
  if (!names_.empty() && names_[0] == kUnknownPiece) return Tokens::kPieces;
  return names_.size() == kBytes && names_[0] == byte_name(0) ? Tokens::kBytes
                                                              : Tokens::kCharacters;
}

Status Vocabulary::check_known(std::string_view text) const {
  const std::set<std::string_view> names(names_.begin(), names_.end());
  const bool has_pieces = tokens() == Tokens::kPieces;
  return for_characters(text, [&](std::string_view character, size_t at) {
    const bool is_space = has_pieces && character == " ";
    if (names.contains(is_space ? kPieceSpace : character)) return Status();
    return Status(invalid_input(place_text(text, at) + ": the network does not know '" +
                                std::string(character) + "'; it knows " +
                                std::to_string(names_.size()) +
                                (has_pieces ? " pieces" : " characters")));
  });
}

Result<std::vector<Token>> Vocabulary::encode(std::string_view text) const {
  std::vector<Token> tokens;
  tokens.reserve(text.size());
  if (this->tokens() == Tokens::kBytes) {
    for (const char c : text) tokens.push_back(static_cast<uint8_t>(c));
    return tokens;
  }
  MANTISSA_RETURN_IF_ERROR(check_known(text));
  if (this->tokens() == Tokens::kPieces) {
    MANTISSA_ASSIGN(const std::vector<int> numbers, encode_pieces(names_, text));
    tokens.assign(numbers.begin(), numbers.end());
    return tokens;
  }
  std::map<std::string_view, Token> numbers;
  for (size_t i = 0; i < names_.size(); ++i) numbers.emplace(names_[i], static_cast<Token>(i));
  MANTISSA_RETURN_IF_ERROR(for_characters(text, [&](std::string_view character, size_t) {
    tokens.push_back(numbers.at(character));
    return Status();
  }));
  return tokens;
}

std::string Vocabulary::decode(std::span<const Token> tokens) const {
  const Tokens kind = this->tokens();
  std::string text;
  for (const Token token : tokens) {
    if (token >= names_.size()) continue;
    text += kind == Tokens::kBytes    ? std::string(1, static_cast<char>(token))
            : kind == Tokens::kPieces ? piece_text(names_[token])
                                      : names_[token];
  }
  return text;
}

int64_t Vocabulary::characters(std::span<const Token> tokens) const {
  if (this->tokens() != Tokens::kPieces) return std::ssize(tokens);
  int64_t count = 0;
  for (const Token token : tokens) {
    for (const char c : piece_text(names_[token])) count += (c & 0xC0) != 0x80;
  }
  return count;
}

Result<Vocabulary> vocabulary_of(std::string_view text, Tokens tokens, int64_t pieces) {
  std::vector<std::string> names;
  if (tokens == Tokens::kBytes) {
    for (size_t byte = 0; byte < kBytes; ++byte) names.push_back(byte_name(byte));
    return Vocabulary(std::move(names));
  }
  // The order of UTF-8 is the one of code points.
  std::set<std::string_view> characters;
  MANTISSA_RETURN_IF_ERROR(for_characters(text, [&](std::string_view character, size_t) {
    characters.insert(character);
    return Status();
  }));
  if (tokens == Tokens::kPieces) {
    MANTISSA_ASSIGN(names, learn_pieces(text, pieces));
    return Vocabulary(std::move(names));
  }
  if (std::ssize(characters) > kMostCharacters) {
    return invalid_input("has " + std::to_string(characters.size()) +
                         " different characters; networks know at most " +
                         std::to_string(kMostCharacters) + "; --tokens bytes has 256");
  }
  if (characters.size() < 2) return invalid_input("has less than two different characters");
  return Vocabulary({characters.begin(), characters.end()});
}

bool is_text_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

Result<Text> load_text(const std::string& path, const TextOptions& options) {
  MANTISSA_ASSIGN(const std::string bytes, read_text(path));
  auto vocabulary = vocabulary_of(bytes, options.tokens, options.pieces);
  if (!vocabulary.ok()) return in_file(path, vocabulary.error());
  Text text;
  text.vocabulary = std::move(*vocabulary);
  if (options.masks) {
    MANTISSA_ASSIGN(text.vocabulary, with_mask(std::move(text.vocabulary)));
  }
  MANTISSA_ASSIGN(const std::vector<Token> tokens, text.vocabulary.encode(bytes));
  const auto count = std::ssize(tokens);
  MANTISSA_RETURN_IF_ERROR(check_length(path, count, options.sequence));
  const Parts parts(count);
  const auto begin = tokens.begin();
  text.train.assign(begin, begin + parts.first);
  text.validation.assign(begin + parts.first, begin + parts.second);
  text.test.assign(begin + parts.second, tokens.end());
  text.sha256 = sha256_hex((options.masks ? "masked text 90 5 5\n" : "text 90 5 5\n") +
                           std::string(tokens_name(options.tokens)) +
                           (options.pieces > 0 ? " " + std::to_string(options.pieces) : "") + "\n" +
                           std::to_string(options.sequence) + "\n" + bytes);
  return text;
}

Result<std::vector<Token>> load_test_tokens(const std::string& path, const Vocabulary& vocabulary,
                                            int64_t sequence) {
  MANTISSA_ASSIGN(const std::string bytes, read_text(path));
  auto tokens = vocabulary.encode(bytes);
  if (!tokens.ok()) return in_file(path, tokens.error());
  MANTISSA_RETURN_IF_ERROR(check_length(path, std::ssize(*tokens), sequence));
  tokens->erase(tokens->begin(), tokens->begin() + Parts(std::ssize(*tokens)).second);
  return std::move(*tokens);
}

Result<DatasetInfo> inspect_text(const std::string& path, const TextOptions& options) {
  if (!is_text_file(path)) {
    return invalid_input("'" + path + "' is no file; language models are trained on a text file");
  }
  MANTISSA_ASSIGN(const Text text, load_text(path, options));
  const auto examples = [&](const std::vector<Token>& part) {
    return text_example_count(std::ssize(part), options.sequence);
  };
  return DatasetInfo{.name = path,
                     .classes = static_cast<int>(text.vocabulary.names().size()),
                     .train_count = examples(text.train),
                     .validation_count = examples(text.validation),
                     .test_count = examples(text.test),
                     .class_names = text.vocabulary.names(),
                     .named = true,
                     .kind = "text of " + std::string(tokens_name(options.tokens)),
                     .sequence = options.sequence};
}

std::vector<TensorSpec> text_specs(int64_t sequence) {
  return {{kTokenTensor, DataType::kInt32, Shape{sequence}},
          {kLabelTensor, DataType::kInt32, Shape{sequence}}};
}

int64_t text_example_count(int64_t tokens, int64_t sequence) {
  return tokens < 1 || sequence < 1 ? 0 : (tokens - 1) / sequence;
}

Examples text_examples(std::span<const Token> tokens, int64_t sequence) {
  Examples examples;
  examples.count = text_example_count(std::ssize(tokens), sequence);
  examples.specs = text_specs(sequence);
  examples.write = [tokens, sequence](uint32_t, uint32_t example,
                                      std::span<std::byte* const> places) {
    const Token* from = tokens.data() + example * sequence;
    auto* inputs = reinterpret_cast<int32_t*>(places[0]);
    auto* labels = reinterpret_cast<int32_t*>(places[1]);
    for (int64_t i = 0; i < sequence; ++i) {
      inputs[i] = from[i];
      labels[i] = from[i + 1];
    }
  };
  return examples;
}

}  // namespace mantissa
