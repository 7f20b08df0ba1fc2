#include "data/tokenizers/byte_bpe/pre_tokens.h"

#include <algorithm>
#include <iterator>

#include "data/tokenizers/common/code_point.h"

namespace mantissa {
namespace {

struct Named {
  PreTokenizer kind;
  std::string_view name, pattern;
};
constexpr Named kNames[] = {
    {PreTokenizer::kGpt2, "gpt-2", ""},
    {PreTokenizer::kSmolLm, "smollm", ""},
    {PreTokenizer::kLlama3, "llama-bpe",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {PreTokenizer::kQwen2, "qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

enum class Kind : uint8_t { kEnd, kLetter, kNumber, kSpace, kOther };

Kind kind_of(int32_t c) {
  if (c >= 0 && c < 0x80) {  // most of most texts
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') return Kind::kLetter;
    if (c >= '0' && c <= '9') return Kind::kNumber;
    return c == ' ' || (c >= '\t' && c <= '\r') ? Kind::kSpace : Kind::kOther;
  }
  if (is_white(c)) return Kind::kSpace;
  const auto category = utf8proc_category(c);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return Kind::kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return Kind::kNumber;
  return Kind::kOther;
}

// Each function gives the end of a piece that begins at `at`, or `at` if it does not match there.
class Matcher {
 public:
  Matcher(std::string_view text, int most_digits, bool by_case)
      : text_(text), most_digits_(most_digits), by_case_(by_case) {}

  size_t gpt2(size_t at) const {
    if (const size_t end = contraction(at); end > at) return end;
    const size_t begin = behind_space(at);
    const Kind kind = kind_at(begin);
    if (kind != Kind::kSpace && kind != Kind::kEnd) return run(begin, kind);
    return white(at);
  }

  size_t llama3(size_t at) const {
    if (const size_t end = contraction(at); end > at) return end;
    if (const size_t end = letters(at); end > at) return end;
    if (kind_at(at) == Kind::kNumber) return run(at, Kind::kNumber, most_digits_);
    const size_t begin = behind_space(at);
    if (kind_at(begin) == Kind::kOther) return line_ends(run(begin, Kind::kOther));
    const size_t white_end = run(at, Kind::kSpace);
    for (size_t end = white_end; end > at; --end) {
      if (is_line_end(end - 1)) return end;
    }
    return white(at);
  }

 private:
  Kind kind_at(size_t at) const {
    return at < text_.size() ? kind_of(code_point_at(text_, at).number) : Kind::kEnd;
  }
  size_t next(size_t at) const { return at + code_point_at(text_, at).length; }
  size_t behind_space(size_t at) const { return text_[at] == ' ' ? at + 1 : at; }
  bool is_line_end(size_t at) const { return text_[at] == '\r' || text_[at] == '\n'; }

  // The end of characters of one kind; 0: of any number of them.
  size_t run(size_t at, Kind kind, int most = 0) const {
    for (int count = 0; kind_at(at) == kind && (most == 0 || count < most); ++count) at = next(at);
    return at;
  }
  size_t line_ends(size_t at) const {
    while (at < text_.size() && is_line_end(at)) ++at;
    return at;
  }

  // 's 't 're 've 'm 'll 'd
  size_t contraction(size_t at) const {
    if (text_[at] != '\'') return at;
    for (const std::string_view letters : {"s", "t", "re", "ve", "m", "ll", "d"}) {
      size_t end = at + 1;
      for (const char letter : letters) end = behind_letter(end, letter);
      if (end > 0) return end;
    }
    return at;
  }
  // Behind a letter, or 0 if it is another one. Without regard to case ſ is an s.
  size_t behind_letter(size_t at, char letter) const {
    if (at == 0 || at >= text_.size()) return 0;
    const char c = text_[at];
    if (c == letter || (!by_case_ && (c | 0x20) == letter)) return at + 1;
    constexpr std::string_view kLongS = "\u017F";
    const bool is_long_s = !by_case_ && letter == 's' && text_.substr(at).starts_with(kLongS);
    return is_long_s ? at + kLongS.size() : 0;
  }

  // Letters, after one character that is no letter, digit or line end.
  size_t letters(size_t at) const {
    const Kind first = kind_at(at);
    if (first == Kind::kLetter) return run(at, Kind::kLetter);
    if (first == Kind::kNumber || is_line_end(at)) return at;
    const size_t begin = next(at), end = run(begin, Kind::kLetter);
    return end > begin ? end : at;
  }

  // White space: all of it at the end of the text, otherwise without the last character, which goes
  // with what follows, unless it is the only one.
  size_t white(size_t at) const {
    size_t end = at, last = at;
    while (kind_at(end) == Kind::kSpace) {
      last = end;
      end = next(end);
    }
    return end == text_.size() || last == at ? end : last;
  }

  const std::string_view text_;
  const int most_digits_;
  const bool by_case_;
};

void for_gpt2_pieces(std::string_view text, const std::function<void(std::string_view)>& visit) {
  const Matcher matcher(text, 0, true);
  for (size_t at = 0; at < text.size();) {
    const size_t end = matcher.gpt2(at);
    visit(text.substr(at, end - at));
    at = end;
  }
}

// Each digit, and GPT-2's pieces between digits.
void for_smollm_pieces(std::string_view text, const std::function<void(std::string_view)>& visit) {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (kind_of(point.number) == Kind::kNumber) {
      for_gpt2_pieces(text.substr(done, at - done), visit);
      visit(text.substr(at, point.length));
      done = at + point.length;
    }
    at += point.length;
  }
  for_gpt2_pieces(text.substr(done), visit);
}

}  // namespace

std::string_view pre_tokenizer_name(PreTokenizer kind) {
  return kNames[static_cast<size_t>(kind)].name;
}

std::string_view pre_tokenizer_pattern(PreTokenizer kind) {
  return kNames[static_cast<size_t>(kind)].pattern;
}

std::optional<PreTokenizer> parse_pre_tokenizer(std::string_view name) {
  const auto found = std::find_if(std::begin(kNames), std::end(kNames),
                                  [&](const Named& each) { return each.name == name; });
  if (found == std::end(kNames)) return std::nullopt;
  return found->kind;
}

void for_pre_tokens(std::string_view text, PreTokenizer kind,
                    const std::function<void(std::string_view piece)>& visit) {
  if (kind == PreTokenizer::kGpt2) return for_gpt2_pieces(text, visit);
  if (kind == PreTokenizer::kSmolLm) return for_smollm_pieces(text, visit);
  const Matcher matcher(text, kind == PreTokenizer::kQwen2 ? 1 : 3, false);
  for (size_t at = 0; at < text.size();) {
    const size_t end = matcher.llama3(at);
    visit(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace mantissa
