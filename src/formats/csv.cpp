#include "formats/csv.h"

#include <algorithm>
#include <array>
#include <new>

#include "base/sizes.h"

namespace mantissa {
namespace {

constexpr size_t kBlockBytes = size_t{256} << 10;
constexpr std::array kSeparators = {',', ';', '\t'};

// The separator that stands most often outside of quotes in the text's first line.
char find_separator(std::string_view text) {
  std::array<int64_t, kSeparators.size()> counts{};
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n' || c == '\r') break;
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += c == kSeparators[i];
  }
  return kSeparators[static_cast<size_t>(std::max_element(counts.begin(), counts.end()) -
                                         counts.begin())];
}

// The separator that a first line "sep=;" names, as Excel writes it; 0: there is no such line.
char told_separator(std::string_view line) {
  if (line.size() == 7 && line.starts_with('"') && line.ends_with('"')) line = line.substr(1, 5);
  const bool tells = line.size() == 5 && (line.starts_with("sep=") || line.starts_with("SEP="));
  return tells && line[4] != '"' ? line[4] : '\0';
}

}  // namespace

CsvReader::CsvReader(std::istream& file, const std::string& name, const CsvLimits& limits)
    : file_(file), name_(name), limits_(limits), block_(kBlockBytes) {}

Error CsvReader::at_line(int64_t line, const std::string& fault) const {
  return invalid_input(name_ + ", line " + std::to_string(line) + ": " + fault);
}

int CsvReader::peek() {
  if (at_ == end_) {
    file_.read(block_.data(), static_cast<std::streamsize>(block_.size()));
    at_ = 0;
    end_ = static_cast<size_t>(file_.gcount());
    if (end_ == 0) return kEnd;
  }
  return static_cast<unsigned char>(block_[at_]);
}

int CsvReader::take() {
  const int c = peek();
  if (c != kEnd) ++at_;
  return c;
}

// Passes over the byte order mark, and finds the separator. The block holds the first line, or as
// much of it as tells.
Status CsvReader::begin() {
  begun_ = true;
  peek();
  std::string_view text(block_.data(), end_);
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    return at_line(1, "is UTF-16; save it as UTF-8");
  }
  if (text.starts_with("\xef\xbb\xbf")) at_ = 3;
  text.remove_prefix(at_);
  text.remove_prefix(std::min(text.find_first_not_of("\r\n"), text.size()));
  const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  separator_ = told_separator(line);
  if (separator_ == '\0') {
    separator_ = find_separator(text);
    return {};
  }
  // Up to the end of the line, which is an empty row then.
  const auto before = text.data() - block_.data();
  line_ += std::count(block_.begin() + static_cast<int64_t>(at_), block_.begin() + before, '\n');
  at_ = static_cast<size_t>(before) + line.size();
  return {};
}

// The rest of a field that began with a quote, up to the separator or line end after it.
Status CsvReader::read_quoted() {
  const int64_t first = line_;
  while (true) {
    const int c = take();
    if (c == kEnd) return at_line(first, "the quote that begins here does not end");
    if (c == '"') {
      if (peek() != '"') break;
      take();
    }
    if (c == '\n') ++line_;
    if (c == 0) return at_line(line_, "has a byte 0: this is no text");
    if (row_.size() == limits_.row_bytes) {
      return at_line(first, "the field in quotes that begins here is longer than " +
                                format_bytes(static_cast<int64_t>(limits_.row_bytes)) +
                                "; is a quote missing?");
    }
    row_.push_back(static_cast<char>(c));
  }
  const int c = peek();
  if (c == kEnd || c == separator_ || c == '\n' || c == '\r') return {};
  return at_line(line_, "text follows the quote that ends a field");
}

// One line of the file, or several if quotes hold line ends.
Status CsvReader::read_row() {
  row_.clear();
  ends_.clear();
  row_line_ = line_;
  bool at_begin = true;  // of a field
  while (true) {
    const int c = take();
    if (c == '"' && at_begin) {
      MANTISSA_RETURN_IF_ERROR(read_quoted());
      at_begin = false;
      continue;
    }
    const bool ends = c == kEnd || c == '\n' || c == '\r';
    if (ends || c == separator_) {
      if (ends_.size() == limits_.fields) {
        return at_line(row_line_, "has more than " + std::to_string(limits_.fields) + " fields");
      }
      ends_.push_back(row_.size());
      at_begin = true;
      if (c == '\r' && peek() == '\n') take();
      if (c == '\n' || c == '\r') ++line_;
      if (ends) return {};
      continue;
    }
    if (c == 0) return at_line(line_, "has a byte 0: this is no text");
    if (row_.size() == limits_.row_bytes) {
      return at_line(row_line_,
                     "is longer than " + format_bytes(static_cast<int64_t>(limits_.row_bytes)));
    }
    row_.push_back(static_cast<char>(c));
    at_begin = false;
  }
}

Result<std::span<const std::string_view>> CsvReader::next() {
  fields_.clear();
  try {
    if (!begun_) MANTISSA_RETURN_IF_ERROR(begin());
    do {
      if (peek() == kEnd) {
        if (file_.bad()) return failed(name_ + ": cannot be read to its end");
        return std::span<const std::string_view>();
      }
      MANTISSA_RETURN_IF_ERROR(read_row());
    } while (ends_.size() == 1 && row_.empty());
    size_t begin = 0;
    for (const size_t end : ends_) {
      fields_.emplace_back(row_.data() + begin, end - begin);
      begin = end;
    }
  } catch (const std::bad_alloc&) {
    return out_of_memory("a row of " + name_, static_cast<int64_t>(limits_.row_bytes));
  }
  return std::span<const std::string_view>(fields_);
}

}  // namespace mantissa
