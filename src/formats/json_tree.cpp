#include "formats/json_tree.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "formats/json_text.h"

namespace mantissa {
namespace {

constexpr size_t kLongestMessage = 160;

// Walks over a text, and tells how far its furthest copy has come: the parser keeps its own copy.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  Cursor operator++(int) {
    const Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

// "unexpected '}'; expected ..." of nlohmann's "[json.exception.parse_error.101] parse error at
// ...".
std::string reason_of(const std::string& message) {
  const size_t dash = message.find(" - ");
  const size_t colon = message.find(": ");
  std::string reason = dash != std::string::npos    ? message.substr(dash + 3)
                       : colon != std::string::npos ? message.substr(colon + 2)
                                                    : message;
  if (reason.size() > kLongestMessage) reason = reason.substr(0, kLongestMessage) + "...";
  return reason;
}

// Builds the tree while nlohmann's parser walks over the text.
class TreeHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeHandler(std::string_view text, const char** furthest, int64_t most_values)
      : counted_(text.data()), furthest_(furthest), values_left_(most_values) {}

  JsonTree root;
  std::string error;

  bool null() override { return add({}); }
  bool boolean(bool truth) override { return add({.kind = Kind::kTruth, .scalar = truth}); }
  bool number_integer(number_integer_t number) override {
    return add({.kind = Kind::kWhole, .scalar = int64_t{number}});
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (number > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return refuse(std::to_string(number) + " is too large; at most 2^63 - 1 fits");
    }
    return add({.kind = Kind::kWhole, .scalar = static_cast<int64_t>(number)});
  }
  bool number_float(number_float_t number, const string_t&) override {
    return add({.kind = Kind::kReal, .scalar = double{number}});
  }
  bool string(string_t& text) override {
    return add({.kind = Kind::kText, .scalar = std::move(text)});
  }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool start_object(size_t) override { return open(Kind::kObject); }
  bool start_array(size_t) override { return open(Kind::kList); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& text) override {
    std::vector<std::string>& keys = open_.back()->keys;
    if (std::ssize(keys) >= kMostJsonEntries) {
      return refuse("an object has more than " + std::to_string(kMostJsonEntries) + " entries");
    }
    if (std::find(keys.begin(), keys.end(), text) != keys.end()) {
      return refuse(json_quoted(text.substr(0, kLongestMessage)) + " stands twice in one object");
    }
    keys.push_back(std::move(text));
    return true;
  }

  bool parse_error(size_t, const std::string&,
                   const nlohmann::detail::exception& exception) override {
    return refuse("is not JSON: " + reason_of(exception.what()));
  }

 private:
  using Kind = JsonTree::Kind;

  // The line of the token that was read last. The parser may have looked at one character more.
  int line() {
    const char* const end = *furthest_ > counted_ ? *furthest_ - 1 : counted_;
    line_ += static_cast<int>(std::count(counted_, end, '\n'));
    counted_ = end;
    return line_;
  }

  bool refuse(const std::string& why) {
    error = "line " + std::to_string(line()) + ": " + why;
    return false;
  }

  bool add(JsonTree value) {
    if (--values_left_ < 0) return refuse("too many values");
    value.line = line();
    if (open_.empty()) {
      root = std::move(value);
    } else {
      open_.back()->items.push_back(std::move(value));
    }
    return true;
  }

  bool open(Kind kind) {
    if (std::ssize(open_) >= kMostJsonDepth) {
      return refuse("nests deeper than " + std::to_string(kMostJsonDepth) + " lists and objects");
    }
    if (!add({.kind = kind})) return false;
    // An open list or object is the last of its parent until it is closed: its address stays.
    open_.push_back(open_.empty() ? &root : &open_.back()->items.back());
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const char* counted_;  // up to here lines are counted
  const char** furthest_;
  int64_t values_left_;
  int line_ = 1;
  std::vector<JsonTree*> open_;
};

}  // namespace

const JsonTree* JsonTree::find(std::string_view key) const {
  const auto found = std::find(keys.begin(), keys.end(), key);
  return found == keys.end() ? nullptr : &items[static_cast<size_t>(found - keys.begin())];
}

Result<JsonTree> parse_json_tree(std::string_view text, int64_t most_values) {
  // The parser takes a zero byte for the end of its input.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    const auto lines = std::count(text.begin(), text.begin() + static_cast<int64_t>(zero), '\n');
    return invalid_input("line " + std::to_string(lines + 1) + ": is not JSON: a zero byte");
  }
  const char* furthest = text.data();
  TreeHandler handler(text, &furthest, most_values);
  const Cursor begin(text.data(), &furthest), end(text.data() + text.size(), &furthest);
  if (nlohmann::json::sax_parse(begin, end, &handler)) return std::move(handler.root);
  return invalid_input(handler.error);
}

std::string json_quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace mantissa
