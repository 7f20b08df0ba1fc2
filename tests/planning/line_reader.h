// Reads the words of a text, line by line.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mantissa::testing {

// The first error stays: from then on words are empty, and numbers the least that are possible.
class LineReader {
 public:
  explicit LineReader(const std::string& text) : lines_(text) {}

  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  void fail(const std::string& what) {
    if (status_.ok()) status_ = invalid_input("line " + std::to_string(number_) + ": " + what);
  }

  void next_line() {
    std::string line;
    ++number_;
    if (!std::getline(lines_, line)) fail("the text ends");
    words_ = std::istringstream(line);
  }

  // The next line begins with this word.
  LineReader& at(const std::string& wanted) {
    next_line();
    expect(wanted);
    return *this;
  }

  // In quotes if it has blanks.
  std::string word() {
    std::string word;
    if (status_.ok() && !(words_ >> std::quoted(word))) fail("a word is missing");
    return status_.ok() ? word : "";
  }

  void expect(const std::string& wanted) {
    const std::string found = word();
    if (found != wanted) fail("'" + found + "' in the place of '" + wanted + "'");
  }

  // The rest of the line, word by word; false at its end.
  bool has_word(std::string& word) { return ok() && (words_ >> word); }
  // The next word of the line, which is read again.
  std::string peek() {
    const auto place = words_.tellg();
    std::string next;
    words_ >> next;
    words_.clear();
    words_.seekg(place);
    return next;
  }
  bool next_line_is_blank() {
    return lines_.peek() == '\n' || lines_.peek() == std::istringstream::traits_type::eof();
  }

  int64_t number_of(std::string_view digits, int64_t least, int64_t most) {
    int64_t number = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (end.ec != std::errc() || end.ptr != digits.data() + digits.size() || number < least ||
        number > most) {
      fail("'" + std::string(digits) + "' is no number that is possible here");
      return least;
    }
    return number;
  }
  template <typename Number = int64_t>
  Number number(int64_t least = 0, int64_t most = std::numeric_limits<Number>::max()) {
    return static_cast<Number>(number_of(word(), least, most));
  }
  // "-" is the number that means none.
  template <typename Number = int64_t>
  Number number_or(Number none, int64_t least = 0,
                   int64_t most = std::numeric_limits<Number>::max()) {
    const std::string text = word();
    return text == "-" ? none : static_cast<Number>(number_of(text, least, most));
  }
  // "-" is -1.
  int index_below(size_t count) { return number_or<int>(-1, 0, static_cast<int64_t>(count) - 1); }

  // The enum of `count` values whose name, by `name_of(value)`, is this word.
  template <typename Enum, typename NameOf>
  Enum value_of(std::string word, size_t count, NameOf&& name_of) {
    std::ranges::replace(word, '_', ' ');
    for (size_t i = 0; i < count; ++i) {
      std::string name(name_of(static_cast<Enum>(i)));
      std::ranges::replace(name, '_', ' ');
      if (name == word) return static_cast<Enum>(i);
    }
    fail("'" + word + "' is not known here");
    return Enum{};
  }
  template <typename Enum, typename NameOf>
  Enum one_of(size_t count, NameOf&& name_of) {
    return value_of<Enum>(word(), count, name_of);
  }
  template <typename Enum, typename Words>
  Enum one_of(const Words& words) {
    return one_of<Enum>(words.size(),
                        [&](Enum value) { return words[static_cast<size_t>(value)]; });
  }

  // "0..3,7" or "-".
  template <typename Number>
  std::vector<Number> list(int64_t most = std::numeric_limits<Number>::max()) {
    std::vector<Number> numbers;
    std::string text = word();
    if (text == "-") return numbers;
    std::replace(text.begin(), text.end(), ',', ' ');
    std::istringstream parts(text);
    for (std::string part; parts >> part && status_.ok();) {
      const size_t dots = part.find("..");
      const int64_t first = number_of(part.substr(0, dots), 0, most);
      const int64_t last =
          dots == std::string::npos ? first : number_of(part.substr(dots + 2), first, most);
      if (last - first > 1 << 20) fail("'" + part + "' is a long list");
      for (int64_t i = first; i <= last && status_.ok(); ++i) {
        numbers.push_back(static_cast<Number>(i));
      }
    }
    return numbers;
  }

  // A value per letter: its place among the known ones. "-": none.
  template <typename Value, typename Letters>
  std::vector<Value> letters(const Letters& known) {
    const std::string text = word();
    std::vector<Value> values;
    for (const char letter : text == "-" ? "" : text) {
      const size_t place = std::string_view(known).find(letter);
      if (place == std::string_view::npos) fail("'" + text + "' has an unknown letter");
      values.push_back(static_cast<Value>(place));
    }
    return values;
  }

  // A blank line, the section's name and number of things, lines of titles, and a line for each.
  template <typename Read>
  void read_table(const std::string& section, int titles, Read&& read_line) {
    next_line();
    const int64_t count = at(section).number();
    for (int i = 0; i < titles; ++i) next_line();
    for (int64_t i = 0; i < count && status_.ok(); ++i) {
      next_line();
      read_line();
    }
  }
  // Lines that begin with their number.
  template <typename Read>
  void read_numbered(const std::string& section, int titles, Read&& read_line) {
    int64_t next = 0;
    read_table(section, titles, [&] {
      expect(std::to_string(next++));
      read_line();
    });
  }

 private:
  std::istringstream lines_;
  std::istringstream words_;  // of the line
  int number_ = 0;            // of the line
  Status status_;
};

}  // namespace mantissa::testing
