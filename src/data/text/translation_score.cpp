#include "data/text/translation_score.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizers/common/code_point.h"

namespace mantissa {
namespace {

constexpr size_t kWordOrder = 4;
constexpr size_t kCharacterOrder = 6;
constexpr double kRecallWeight = 4;  // beta 2, squared

// Python's white space: its str.split() divides sacreBLEU's sentences.
bool is_space(int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.number < 0) return false;
    at += point.length;
  }
  return true;
}

// The units of a sentence, words or characters, one after the other in `text`. Unit i ends at
// ends[i]; it begins `gap` bytes after the end of the unit before.
struct Units {
  std::string text;
  std::vector<size_t> ends;
  size_t gap = 0;

  std::string_view ngram(size_t first, size_t order) const {
    const size_t begin = first == 0 ? 0 : ends[first - 1] + gap;
    return std::string_view(text).substr(begin, ends[first + order - 1] - begin);
  }
};

Units words_of(std::string_view text) {
  Units words;
  words.gap = 1;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (is_space(point.number)) {
      if (inside) words.ends.push_back(words.text.size());
      inside = false;
    } else {
      if (!inside && !words.text.empty()) words.text += ' ';
      words.text += text.substr(at, point.length);
      inside = true;
    }
    at += point.length;
  }
  if (inside) words.ends.push_back(words.text.size());
  return words;
}

Units characters_of(std::string_view text) {
  Units characters;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (!is_space(point.number)) {
      characters.text += text.substr(at, point.length);
      characters.ends.push_back(characters.text.size());
    }
    at += point.length;
  }
  return characters;
}

struct Matches {
  int64_t translation = 0, reference = 0, both = 0;  // n-grams
};

using Counts = std::unordered_map<std::string_view, int64_t>;

Counts count_ngrams(const Units& units, size_t order) {
  Counts counts;
  for (size_t i = 0; i + order <= units.ends.size(); ++i) ++counts[units.ngram(i, order)];
  return counts;
}

Matches match(const Units& translation, const Units& reference, size_t order) {
  const Counts found = count_ngrams(translation, order);
  const Counts wanted = count_ngrams(reference, order);
  Matches matches;
  for (const auto& [ngram, count] : found) {
    matches.translation += count;
    const auto other = wanted.find(ngram);
    if (other != wanted.end()) matches.both += std::min(count, other->second);
  }
  for (const auto& [ngram, count] : wanted) matches.reference += count;
  return matches;
}

void add(const Matches& from, Matches& to) {
  to.translation += from.translation;
  to.reference += from.reference;
  to.both += from.both;
}

using WordMatches = std::array<Matches, kWordOrder>;
using CharacterMatches = std::array<Matches, kCharacterOrder>;

// An order without a match counts half of one, the next such order a quarter, and so on.
double bleu(const WordMatches& orders) {
  const auto words = static_cast<double>(orders[0].translation);
  const auto wanted = static_cast<double>(orders[0].reference);
  if (orders[0].both == 0) return 0;
  double smooth = 1, logs = 0;
  for (const Matches& order : orders) {
    if (order.translation == 0) return 0;
    if (order.both == 0) smooth *= 2;
    const double both = order.both == 0 ? 1 / smooth : static_cast<double>(order.both);
    logs += std::log(100 * both / static_cast<double>(order.translation));
  }
  const double brevity = words < wanted ? std::exp(1 - wanted / words) : 1;
  return brevity * std::exp(logs / kWordOrder);
}

double chrf(const CharacterMatches& orders) {
  double precision = 0, recall = 0;
  int used = 0;
  for (const Matches& order : orders) {
    if (order.translation == 0 || order.reference == 0) continue;
    precision += static_cast<double>(order.both) / static_cast<double>(order.translation);
    recall += static_cast<double>(order.both) / static_cast<double>(order.reference);
    ++used;
  }
  if (precision + recall == 0) return 0;
  precision /= used;
  recall /= used;
  return 100 * (1 + kRecallWeight) * precision * recall / (kRecallWeight * precision + recall);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

bool is_13a_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }

// ASCII's signs and the space, without the apostrophe, comma, dash and full stop.
bool is_sign(char c) {
  return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// If two neighbours are such a pair, puts spaces around them; pairs do not overlap.
template <typename IsPair>
std::string divide_pairs(std::string_view text, const IsPair& is_pair, std::string_view before,
                         std::string_view behind) {
  std::string divided;
  for (size_t at = 0; at < text.size();) {
    if (at + 1 < text.size() && is_pair(text[at], text[at + 1])) {
      divided += before;
      divided += text[at];
      divided += ' ';
      divided += text[at + 1];
      divided += behind;
      at += 2;
    } else {
      divided += text[at++];
    }
  }
  return divided;
}

std::string without_spaces_behind(std::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    at += point.length;
    if (!is_space(point.number)) end = at;
  }
  return std::string(text.substr(0, end));
}

Status check_sentences(std::span<const std::string> translations,
                       std::span<const std::string> references) {
  if (translations.size() != references.size()) {
    return invalid_input(std::to_string(translations.size()) + " translations and " +
                         std::to_string(references.size()) +
                         " references: each translation is compared with one reference");
  }
  if (translations.empty()) return invalid_input("no translations to compare");
  for (size_t i = 0; i < translations.size(); ++i) {
    const bool is_text = is_utf8(translations[i]);
    if (is_text && is_utf8(references[i])) continue;
    return invalid_input(std::string(is_text ? "reference " : "translation ") +
                         std::to_string(i + 1) + " is not UTF-8");
  }
  return {};
}

}  // namespace

std::string tokenize_13a(std::string_view sentence) {
  std::string text = without_spaces_behind(sentence);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  std::string spaced = " ";
  for (const char c : text) spaced += is_sign(c) ? std::string{' ', c, ' '} : std::string{c};
  spaced += ' ';
  const auto stop_behind = [](char a, char b) { return !is_13a_digit(a) && is_stop(b); };
  const auto stop_before = [](char a, char b) { return is_stop(a) && !is_13a_digit(b); };
  const auto dash_behind = [](char a, char b) { return is_13a_digit(a) && b == '-'; };
  spaced = divide_pairs(spaced, stop_behind, "", " ");
  spaced = divide_pairs(spaced, stop_before, " ", "");
  spaced = divide_pairs(spaced, dash_behind, "", " ");
  return words_of(spaced).text;
}

Result<TranslationScore> score_translations(std::span<const std::string> translations,
                                            std::span<const std::string> references) {
  MANTISSA_RETURN_IF_ERROR(check_sentences(translations, references));
  WordMatches word_matches;
  CharacterMatches character_matches;
  for (size_t i = 0; i < translations.size(); ++i) {
    const Units words = words_of(tokenize_13a(translations[i]));
    const Units reference_words = words_of(tokenize_13a(references[i]));
    for (size_t n = 1; n <= kWordOrder; ++n) {
      add(match(words, reference_words, n), word_matches[n - 1]);
    }
    const Units characters = characters_of(translations[i]);
    const Units reference_characters = characters_of(references[i]);
    for (size_t n = 1; n <= kCharacterOrder; ++n) {
      Matches matches = match(characters, reference_characters, n);
      // A reference too short for the order cannot be hit: the translation's n-grams do not count.
      if (matches.reference == 0) matches.translation = 0;
      add(matches, character_matches[n - 1]);
    }
  }
  return TranslationScore{.bleu = bleu(word_matches),
                          .chrf = chrf(character_matches),
                          .words = word_matches[0].translation,
                          .reference_words = word_matches[0].reference};
}

}  // namespace mantissa
