#include "data/text/parallel_text.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "base/files/text_file.h"
#include "base/hash.h"
#include "data/text/gettext.h"
#include "data/tokenizers/common/code_point.h"

namespace mantissa {
namespace {

constexpr const char* kCatalogueEnding = ".mo";

Error on_line(int64_t line, const std::string& message) {
  return invalid_input("line " + std::to_string(line) + ": " + message);
}

Status check_text(std::string_view text, int64_t line) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.number > 0) {
      at += point.length;
      continue;
    }
    const std::string place = "byte " + std::to_string(at + 1);
    return on_line(line, place + (point.number < 0 ? " is not UTF-8" : " is a NUL byte"));
  }
  return {};
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> columns;
  for (size_t tab; (tab = line.find('\t')) != std::string_view::npos; line.remove_prefix(tab + 1)) {
    columns.push_back(line.substr(0, tab));
  }
  columns.push_back(line);
  return columns;
}

// The columns of a line: as many as `expected`, or 0 if no line has set that yet.
Result<std::vector<std::string_view>> check_columns(std::string_view text, int64_t line,
                                                    size_t expected) {
  MANTISSA_RETURN_IF_ERROR(check_text(text, line));
  auto columns = columns_of(text);
  if (columns.size() < 2 || columns.size() > 3) {
    return on_line(line,
                   "has " + std::to_string(columns.size() - 1) +
                       " tabs; a line is: source, tab, target, and if you like tab, document");
  }
  if (expected != 0 && columns.size() != expected) {
    return on_line(line, columns.size() == 2 ? "names no document, but lines before it do"
                                             : "names a document, but lines before it do not");
  }
  if (columns.size() == 3 && is_blank(columns[2])) return on_line(line, "has an empty document");
  return columns;
}

// A number from 0 to 99 for all pairs that belong together.
unsigned hundredth_of(const SentencePair& pair) {
  const bool has_document = !pair.document.empty();
  const std::string hash = sha256_hex(has_document ? pair.document : pair.source);
  uint32_t number = 0;
  std::from_chars(hash.data(), hash.data() + 8, number, 16);
  return number % 100;
}

bool is_catalogue(const std::string& file) {
  return std::filesystem::path(file).extension() == kCatalogueEnding;
}

// A catalogue's name without its ending.
std::string document_of(const std::string& file) {
  return std::filesystem::path(file).stem().string();
}

// The file itself, or the catalogues of a folder by their names.
Result<std::vector<std::string>> files_of(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator entry(path, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string file = entry->path().string();
    if (is_catalogue(file)) files.push_back(file);
  }
  if (failed) return invalid_input("'" + path + "' cannot be read: " + failed.message());
  if (files.empty()) {
    return invalid_input("'" + path + "' has no gettext catalogues (*.mo); a parallel text is a " +
                         "file of lines, or a folder of such catalogues");
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::string> read_pairs_file(const std::string& file) {
  MANTISSA_ASSIGN(std::string text, read_text_file(file, kMostParallelBytes));
  if (text.empty()) return invalid_input("'" + file + "' is empty");
  return text;
}

}  // namespace

Result<std::vector<SentencePair>> parse_parallel_text(std::string_view text, int64_t& skipped) {
  std::vector<SentencePair> pairs;
  skipped = 0;
  size_t expected = 0;
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) {
      ++skipped;
      continue;
    }
    MANTISSA_ASSIGN(const auto columns, check_columns(row, line, expected));
    expected = columns.size();
    if (is_blank(columns[0]) || is_blank(columns[1])) {
      ++skipped;
      continue;
    }
    pairs.push_back({std::string(columns[0]), std::string(columns[1]),
                     std::string(expected == 3 ? columns[2] : std::string_view())});
  }
  return pairs;
}

Result<ParallelText> load_parallel_text(const std::string& path) {
  MANTISSA_ASSIGN(std::vector<std::string> files, files_of(path));
  ParallelText parts;
  std::string contents;
  int64_t count = 0;
  for (const std::string& file : files) {
    MANTISSA_ASSIGN(const std::string text, read_pairs_file(file));
    int64_t skipped = 0;
    auto pairs = is_catalogue(file)
                     ? parse_catalogue(text, files.size() > 1 ? document_of(file) : "", skipped)
                     : parse_parallel_text(text, skipped);
    if (!pairs.ok()) {
      const Error& error = pairs.error();
      return make_error(error.code, "'" + file + "', " + error.message, error.where);
    }
    parts.skipped += skipped;
    count += std::ssize(*pairs);
    for (SentencePair& pair : *pairs) {
      const unsigned place = hundredth_of(pair);
      auto& part = place < 90 ? parts.train : place < 95 ? parts.validation : parts.test;
      part.push_back(std::move(pair));
    }
    contents += files.size() > 1 ? document_of(file) + " " + sha256_hex(text) + "\n" : text;
  }
  for (const auto& [part, name] :
       {std::pair(&parts.train, "train on"), std::pair(&parts.validation, "validate with"),
        std::pair(&parts.test, "test with")}) {
    if (!part->empty()) continue;
    return invalid_input("'" + path + "' has " + std::to_string(count) +
                         " pairs of sentences and, divided by document, none to " + name +
                         "; choose a longer text, or more documents");
  }
  parts.sha256 = sha256_hex("parallel text 90 5 5\n" + contents);
  return parts;
}

}  // namespace mantissa
