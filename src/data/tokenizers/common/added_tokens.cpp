#include "data/tokenizers/common/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>
#include <set>
#include <utility>

#include "data/tokenizers/common/code_point.h"

namespace mantissa {
namespace {

using Character = utf8proc_int32_t;

size_t length_at(std::string_view text, size_t at, Character& c) {
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                       static_cast<utf8proc_ssize_t>(text.size() - at), &c);
  return static_cast<size_t>(std::max<utf8proc_ssize_t>(1, length));
}

// The beginning of the character before `at`.
size_t place_before(std::string_view text, size_t at) {
  --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

// Unicode's \w: letters, marks, decimal digits, connectors and joiners.
bool is_of_a_word(Character c) {
  constexpr Character kNonJoiner = 0x200C, kJoiner = 0x200D, kCircledA = 0x24B6, kCircledZ = 0x24E9;
  if (c == kNonJoiner || c == kJoiner || (c >= kCircledA && c <= kCircledZ)) return true;
  const auto category = utf8proc_category(c);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_ME) ||
         category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_PC;
}

bool is_within_a_word(std::string_view text, size_t begin, size_t end) {
  Character c = 0;
  if (begin > 0) {
    length_at(text, place_before(text, begin), c);
    if (is_of_a_word(c)) return true;
  }
  if (end == text.size()) return false;
  length_at(text, end, c);
  return is_of_a_word(c);
}

size_t begin_of_white(std::string_view text, size_t begin) {
  while (begin > 0) {
    const size_t before = place_before(text, begin);
    Character c = 0;
    length_at(text, before, c);
    if (!is_white(c)) break;
    begin = before;
  }
  return begin;
}

size_t end_of_white(std::string_view text, size_t end) {
  while (end < text.size()) {
    Character c = 0;
    const size_t length = length_at(text, end, c);
    if (!is_white(c)) break;
    end += length;
  }
  return end;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens, std::vector<std::string> texts)
    : tokens_(std::move(tokens)) {
  std::set<size_t, std::greater<>> lengths;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) continue;
    lengths.insert(texts[i].size());
    begins_[static_cast<uint8_t>(texts[i][0])] = true;
    by_text_.emplace(std::move(texts[i]), i);
  }
  lengths_.assign(lengths.begin(), lengths.end());
}

AddedTokenFinder::Match AddedTokenFinder::at(std::string_view text, size_t place) const {
  if (!begins_[static_cast<uint8_t>(text[place])]) return {};
  for (const size_t length : lengths_) {
    if (length > text.size() - place) continue;
    const auto found = by_text_.find(std::string(text.substr(place, length)));
    if (found != by_text_.end()) return {&tokens_[found->second], length};
  }
  return {};
}

void AddedTokenFinder::divide(std::string_view text,
                              const std::function<void(std::string_view)>& part,
                              const std::function<void(int32_t)>& token) const {
  size_t done = 0;
  for (size_t place = 0; place < text.size() && !lengths_.empty();) {
    const auto [found, length] = at(text, place);
    if (found == nullptr) {
      ++place;
      continue;
    }
    size_t begin = place, end = place + length;
    place = end;
    if (found->single_word && is_within_a_word(text, begin, end)) continue;
    if (found->left_strip) begin = std::max(begin_of_white(text, begin), done);
    if (found->right_strip) end = end_of_white(text, end);
    if (done < begin) part(text.substr(done, begin - done));
    token(found->number);
    done = end;
  }
  if (done < text.size()) part(text.substr(done));
}

}  // namespace mantissa
