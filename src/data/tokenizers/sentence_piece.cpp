#include "data/tokenizers/sentence_piece.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "data/tokenizers/common/code_point.h"

namespace mantissa {
namespace {

constexpr std::string_view kLineFeed = "\n";

// The library leaves out longer lines without a word: these come in parts.
constexpr size_t kMostLineBytes = 100'000;

// The lines of a text.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::string_view text) : rest_(text) { Next(); }
  bool done() const override { return done_; }
  void Next() override {
    done_ = rest_.empty();
    size_t end = std::min({rest_.find('\n'), rest_.size(), kMostLineBytes});
    // At the start of a character.
    while (end > 0 && end < rest_.size() && (rest_[end] & 0xC0) == 0x80) --end;
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(end + (end < rest_.size() && rest_[end] == '\n' ? 1 : 0));
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::string_view rest_;
  std::string line_;
  bool done_ = false;
};

Error library_failed(const sentencepiece::util::Status& status) {
  return invalid_input(std::string("sentencepiece: ") + status.message());
}

// Protocol buffers, as far as a sentencepiece model needs them.
void append_varint(uint64_t n, std::string& to) {
  for (; n >= 0x80; n >>= 7) to += static_cast<char>(n | 0x80);
  to += static_cast<char>(n);
}

void append_number(int field, uint64_t n, std::string& to) {
  append_varint(static_cast<uint64_t>(field) << 3, to);
  append_varint(n, to);
}

void append_bytes(int field, std::string_view bytes, std::string& to) {
  append_varint(static_cast<uint64_t>(field) << 3 | 2, to);
  append_varint(bytes.size(), to);
  to += bytes;
}

void append_float(int field, float number, std::string& to) {
  append_varint(static_cast<uint64_t>(field) << 3 | 5, to);
  std::array<char, sizeof number> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);  // little-endian, as all machines here are
  to.append(bytes.data(), bytes.size());
}

// sentencepiece's ModelProto: fields and types of its sentencepiece_model.proto.
std::string model_of(std::span<const std::string> pieces) {
  constexpr uint64_t kNormal = 1, kUnknown = 2, kUserDefined = 4, kBpe = 2;
  std::string model;
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::string piece;
    append_bytes(1, pieces[i], piece);
    append_float(2, -static_cast<float>(i), piece);
    const bool is_line_feed = pieces[i] == kLineFeed;
    append_number(3, i == 0 ? kUnknown : is_line_feed ? kUserDefined : kNormal, piece);
    append_bytes(1, piece, model);
  }
  std::string trainer;
  append_number(3, kBpe, trainer);
  append_bytes(2, trainer, model);
  std::string normalizer;
  append_bytes(1, "identity", normalizer);
  append_number(3, 0, normalizer);  // add_dummy_prefix
  append_number(4, 0, normalizer);  // remove_extra_whitespaces
  append_number(5, 1, normalizer);  // escape_whitespaces
  append_bytes(3, normalizer, model);
  return model;
}

// All characters of a text, as pieces have them. The text is UTF-8.
std::set<std::string> characters_of(std::string_view text) {
  std::set<std::string> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t length = code_point_at(text, at).length;
    const std::string_view character = text.substr(at, length);
    if (character != kLineFeed) characters.emplace(character == " " ? kPieceSpace : character);
    at += length;
  }
  return characters;
}

Result<std::vector<std::string>> train(std::string_view text, int64_t size) {
  Lines lines(text);
  std::string model;
  const auto trained = sentencepiece::SentencePieceTrainer::Train(
      {{"model_type", "bpe"},
       {"vocab_size", std::to_string(size)},
       {"hard_vocab_limit", "false"},
       {"character_coverage", "1.0"},
       {"normalization_rule_name", "identity"},
       {"add_dummy_prefix", "false"},
       {"remove_extra_whitespaces", "false"},
       {"max_sentence_length", std::to_string(2 * kMostLineBytes)},
       {"num_threads", "1"},
       {"unk_id", "0"},
       {"bos_id", "-1"},
       {"eos_id", "-1"},
       {"pad_id", "-1"},
       {"minloglevel", "3"}},
      &lines, &model);
  if (!trained.ok()) return library_failed(trained);
  sentencepiece::SentencePieceProcessor processor;
  const auto loaded = processor.LoadFromSerializedProto(model);
  if (!loaded.ok()) return library_failed(loaded);
  std::vector<std::string> pieces;
  for (int i = 0; i < processor.GetPieceSize(); ++i) pieces.push_back(processor.IdToPiece(i));
  return pieces;
}

}  // namespace

Result<std::vector<std::string>> learn_pieces(std::string_view text, int64_t size) {
  const std::set<std::string> characters = characters_of(text);
  // Two more: the unknown piece and the line feed.
  const auto needed = std::ssize(characters) + 2;
  if (size < needed) {
    return invalid_input("has " + std::to_string(characters.size()) +
                         " different characters; a vocabulary of " + std::to_string(size) +
                         " pieces needs room for them: choose a larger --vocabulary");
  }
  // The library leaves out lines with characters that it reserves for itself: the characters of
  // such lines are added afterwards.
  MANTISSA_ASSIGN(std::vector<std::string> pieces, train(text, size - 1));
  const std::unordered_set<std::string> known(pieces.begin(), pieces.end());
  std::vector<std::string> missing = {std::string(kLineFeed)};
  for (const std::string& character : characters) {
    if (!known.contains(character)) missing.push_back(character);
  }
  // Merges are before characters, which stay: the last merges make room.
  const auto is_merge = [&](const std::string& piece) {
    return piece != kUnknownPiece && !characters.contains(piece);
  };
  while (std::ssize(pieces) + std::ssize(missing) > size) {
    const auto last = std::find_if(pieces.rbegin(), pieces.rend(), is_merge);
    if (last == pieces.rend()) break;
    pieces.erase(std::next(last).base());
  }
  pieces.insert(pieces.end(), missing.begin(), missing.end());
  return pieces;
}

Result<std::vector<int>> encode_pieces(std::span<const std::string> pieces,
                                       std::string_view text) {
  sentencepiece::SentencePieceProcessor processor;
  const auto loaded = processor.LoadFromSerializedProto(model_of(pieces));
  if (!loaded.ok()) return library_failed(loaded);
  const auto line_feed = std::find(pieces.begin(), pieces.end(), kLineFeed) - pieces.begin();
  std::vector<int> numbers, of_line;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto encoded = processor.Encode(text.substr(0, end), &of_line);
    if (!encoded.ok()) return library_failed(encoded);
    numbers.insert(numbers.end(), of_line.begin(), of_line.end());
    if (end < text.size()) numbers.push_back(static_cast<int>(line_feed));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return numbers;
}

std::string piece_text(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const bool is_space = piece.starts_with(kPieceSpace);
    text += is_space ? ' ' : piece[0];
    piece.remove_prefix(is_space ? std::strlen(kPieceSpace) : 1);
  }
  return text;
}

}  // namespace mantissa
