#include "data/tokenizers/bert_words.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

namespace mantissa {
namespace {

using Character = utf8proc_int32_t;

// Calls visit(code point, its bytes) for each character of a text. False if it is not UTF-8: `at`
// is then the place.
template <typename Visit>
bool for_code_points(std::string_view text, size_t& at, const Visit& visit) {
  for (at = 0; at < text.size();) {
    Character c = 0;
    const auto length =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                         static_cast<utf8proc_ssize_t>(text.size() - at), &c);
    if (length <= 0) return false;
    visit(c, text.substr(at, static_cast<size_t>(length)));
    at += static_cast<size_t>(length);
  }
  return true;
}

void append(Character c, std::string& to) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(c, bytes.data());
  to.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
}

// Unicode's White_Space, except control characters.
bool is_space(Character c) {
  if (c == '\t' || c == '\n' || c == '\r') return true;
  const auto category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

// Characters that BERT's tokenizer leaves out: control, format, surrogate and private ones, and the
// replacement character.
bool is_left_out(Character c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  constexpr Character kReplacement = 0xFFFD;
  const auto category = utf8proc_category(c);
  return c == kReplacement || category == UTF8PROC_CATEGORY_CC ||
         category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CS ||
         category == UTF8PROC_CATEGORY_CO;
}

// Unicode's punctuation, and all ASCII characters that are no letter, digit, space or control.
bool is_punctuation(Character c) {
  if (c < 0x80) {
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126);
  }
  const auto category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

// The blocks that BERT's tokenizer takes for Chinese.
bool is_chinese(Character c) {
  constexpr std::pair<Character, Character> kBlocks[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks),
                     [&](const auto& block) { return c >= block.first && c <= block.second; });
}

// The text without the characters that are left out, and with spaces around Chinese characters.
std::string cleaned(std::string_view text, bool split_chinese) {
  std::string clean;
  clean.reserve(text.size());
  size_t at = 0;
  for_code_points(text, at, [&](Character c, std::string_view bytes) {
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
                  [&](Character c, std::string_view bytes) {
                    if (utf8proc_category(c) != UTF8PROC_CATEGORY_MN) plain += bytes;
                  });
  std::free(decomposed);
  return plain;
}

std::string lower_case(std::string_view text) {
  constexpr Character kDottedI = 0x130;  // two code points in lower case
  std::string lower;
  lower.reserve(text.size());
  size_t at = 0;
  for_code_points(text, at, [&](Character c, std::string_view) {
    if (c == kDottedI) {
      lower += "i\u0307";
    } else {
      append(utf8proc_tolower(c), lower);
    }
  });
  return lower;
}

}  // namespace

std::string bert_normalised(std::string_view text, const WordPieceOptions& options) {
  std::string plain = cleaned(text, options.split_chinese);
  if (options.strip_accents) plain = without_accents(plain);
  return options.lower_case ? lower_case(plain) : plain;
}

void for_bert_words(std::string_view text, const WordPieceOptions& options,
                    const std::function<void(std::string_view word)>& visit) {
  for_words(bert_normalised(text, options), visit);
}

void for_words(std::string_view plain, const std::function<void(std::string_view word)>& visit) {
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) visit(word);
    word.clear();
  };
  size_t at = 0;
  for_code_points(plain, at, [&](Character c, std::string_view bytes) {
    if (is_space(c)) return end_word();
    if (!is_punctuation(c)) return (void)(word += bytes);
    end_word();
    visit(bytes);
  });
  end_word();
}

}  // namespace mantissa
