#include "data/wordpiece.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

namespace mantissa {
namespace {

using CodePoint = utf8proc_int32_t;

// Calls visit(code point, its bytes) for each of a text; false at what is not UTF-8, whose place is
// then in `at`.
template <typename Visit>
bool for_code_points(std::string_view text, size_t& at, const Visit& visit) {
  for (at = 0; at < text.size();) {
    CodePoint c = 0;
    const auto length =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                         static_cast<utf8proc_ssize_t>(text.size() - at), &c);
    if (length <= 0) return false;
    visit(c, text.substr(at, static_cast<size_t>(length)));
    at += static_cast<size_t>(length);
  }
  return true;
}

bool is_utf8(std::string_view text) {
  size_t at = 0;
  return for_code_points(text, at, [](CodePoint, std::string_view) {});
}

void append(CodePoint c, std::string& to) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(c, bytes.data());
  to.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
}

// Unicode's White_Space, but for control characters.
bool is_space(CodePoint c) {
  if (c == '\t' || c == '\n' || c == '\r') return true;
  const auto category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

// Characters that BERT's tokenizer leaves out: control, format, surrogate and private ones, and the
// one that stands for what could not be read.
bool is_left_out(CodePoint c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  constexpr CodePoint kReplacement = 0xFFFD;
  const auto category = utf8proc_category(c);
  return c == kReplacement || category == UTF8PROC_CATEGORY_CC ||
         category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CS ||
         category == UTF8PROC_CATEGORY_CO;
}

// Unicode's punctuation, and all of ASCII that is no letter, digit, space or control.
bool is_punctuation(CodePoint c) {
  if (c < 0x80) {
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126);
  }
  const auto category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

// The blocks that BERT's tokenizer takes for Chinese.
bool is_chinese(CodePoint c) {
  constexpr std::pair<CodePoint, CodePoint> kBlocks[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks),
                     [&](const auto& block) { return c >= block.first && c <= block.second; });
}

// The text without what is left out, and with spaces around Chinese characters.
std::string cleaned(std::string_view text, bool split_chinese) {
  std::string clean;
  clean.reserve(text.size());
  size_t at = 0;
  for_code_points(text, at, [&](CodePoint c, std::string_view bytes) {
    if (is_left_out(c)) return;
    const bool is_word = split_chinese && is_chinese(c);
    if (is_word) clean += ' ';
    is_space(c) ? clean += ' ' : clean += bytes;
    if (is_word) clean += ' ';
  });
  return clean;
}

// Letters without the marks on them: canonical decomposition, less its nonspacing marks.
std::string without_accents(const std::string& text) {
  utf8proc_uint8_t* decomposed = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &decomposed,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE));
  if (length < 0) return text;
  std::string plain;
  size_t at = 0;
  for_code_points({reinterpret_cast<const char*>(decomposed), static_cast<size_t>(length)}, at,
                  [&](CodePoint c, std::string_view bytes) {
                    if (utf8proc_category(c) != UTF8PROC_CATEGORY_MN) plain += bytes;
                  });
  std::free(decomposed);
  return plain;
}

std::string lower_case(std::string_view text) {
  constexpr CodePoint kDottedI = 0x130;  // two code points in lower case
  std::string lower;
  lower.reserve(text.size());
  size_t at = 0;
  for_code_points(text, at, [&](CodePoint c, std::string_view) {
    if (c == kDottedI) {
      lower += "i\u0307";
    } else {
      append(utf8proc_tolower(c), lower);
    }
  });
  return lower;
}

Error not_utf8(std::string_view text, size_t at) {
  const auto line = std::count(text.begin(), text.begin() + static_cast<int64_t>(at), '\n') + 1;
  return invalid_input("line " + std::to_string(line) + ", byte " + std::to_string(at) +
                       ": is not UTF-8");
}

Status check_piece(const std::string& piece, size_t number) {
  const std::string subject = "the tokenizer's piece " + std::to_string(number) + " ";
  if (piece.empty()) return invalid_input(subject + "is empty");
  if (piece.size() > kMostPieceBytes) {
    return invalid_input(subject + "is longer than " + std::to_string(kMostPieceBytes) + " bytes");
  }
  if (!is_utf8(piece)) return invalid_input(subject + "is not UTF-8");
  return {};
}

}  // namespace

Result<WordPiece> WordPiece::create(std::vector<std::string> pieces,
                                    const WordPieceOptions& options) {
  if (pieces.empty() || std::ssize(pieces) > kMostPieces) {
    return invalid_input("the tokenizer has " + std::to_string(pieces.size()) + " pieces; 1 to " +
                         std::to_string(kMostPieces) + " are possible");
  }
  if (options.longest_word < 1) return invalid_input("the tokenizer's longest word has no letter");
  WordPiece result;
  result.options_ = options;
  result.pieces_ = std::move(pieces);
  const std::string& prefix = options.continuation;
  for (size_t i = 0; i < result.pieces_.size(); ++i) {
    const std::string& piece = result.pieces_[i];
    MANTISSA_RETURN_IF_ERROR(check_piece(piece, i));
    if (!result.numbers_.emplace(piece, static_cast<int32_t>(i)).second) {
      return invalid_input("the tokenizer has the piece '" + piece + "' twice");
    }
    if (piece.size() > prefix.size() && piece.starts_with(prefix)) {
      result.continuations_.emplace(std::string_view(piece).substr(prefix.size()),
                                    static_cast<int32_t>(i));
    }
    result.longest_piece_ = std::max(result.longest_piece_, piece.size());
  }
  const std::pair<const std::string&, int32_t&> specials[] = {{options.unknown, result.unknown_},
                                                              {options.first, result.first_},
                                                              {options.last, result.last_},
                                                              {options.padding, result.padding_},
                                                              {options.mask, result.mask_}};
  for (const auto& [name, number] : specials) {
    const auto found = result.numbers_.find(name);
    if (found == result.numbers_.end()) {
      return invalid_input("the tokenizer has no piece '" + name + "'");
    }
    number = found->second;
  }
  return result;
}

// The longest piece from the left, again and again; the word is unknown if one is not there.
void WordPiece::encode_word(std::string_view word, std::vector<int32_t>& tokens) const {
  int64_t characters = 0;
  for (const char c : word) characters += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  if (characters > options_.longest_word) return tokens.push_back(unknown_);
  const size_t before = tokens.size();
  for (size_t at = 0; at < word.size();) {
    const auto& numbers = at == 0 ? numbers_ : continuations_;
    size_t length = std::min(word.size() - at, longest_piece_);
    auto found = numbers.end();
    for (; length > 0; --length) {
      found = numbers.find(word.substr(at, length));
      if (found != numbers.end()) break;
    }
    if (length == 0) {
      tokens.resize(before);
      return tokens.push_back(unknown_);
    }
    tokens.push_back(found->second);
    at += length;
  }
}

void WordPiece::encode_part(std::string_view text, std::vector<int32_t>& tokens) const {
  std::string plain = cleaned(text, options_.split_chinese);
  if (options_.strip_accents) plain = without_accents(plain);
  if (options_.lower_case) plain = lower_case(plain);
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) encode_word(word, tokens);
    word.clear();
  };
  size_t at = 0;
  for_code_points(plain, at, [&](CodePoint c, std::string_view bytes) {
    if (is_space(c)) return end_word();
    if (!is_punctuation(c)) return (void)(word += bytes);
    end_word();
    encode_word(bytes, tokens);
  });
  end_word();
}

Result<std::vector<int32_t>> WordPiece::encode(std::string_view text) const {
  size_t wrong = 0;
  if (!for_code_points(text, wrong, [](CodePoint, std::string_view) {})) {
    return not_utf8(text, wrong);
  }
  const std::pair<std::string_view, int32_t> specials[] = {{options_.unknown, unknown_},
                                                           {options_.first, first_},
                                                           {options_.last, last_},
                                                           {options_.padding, padding_},
                                                           {options_.mask, mask_}};
  std::vector<int32_t> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t next = text.size();
    std::pair<std::string_view, int32_t> special = {{}, -1};
    for (const auto& each : specials) {
      const size_t found = text.find(each.first, at);
      if (found < next) {
        next = found;
        special = each;
      }
    }
    encode_part(text.substr(at, next - at), tokens);
    if (special.second >= 0) tokens.push_back(special.second);
    at = next + special.first.size();
  }
  return tokens;
}

}  // namespace mantissa
