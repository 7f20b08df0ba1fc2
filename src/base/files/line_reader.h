// A file of lines, read line by line: it need not fit the memory, only its longest line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/result.h"

namespace mantissa {

class LineReader {
 public:
  // Errors as of InputFile::open.
  static Result<LineReader> open(const std::filesystem::path& path);

  // The next line without its end, valid until the next call. Nothing at the end of the file, and
  // for a last line without its end: somebody may still be writing it, or never came to it. An
  // error for a line of more than 64 MiB.
  Result<std::optional<std::string_view>> next();

  // The number of lines so far, and their bytes.
  int64_t lines() const { return lines_; }
  int64_t bytes() const { return bytes_; }

 private:
  explicit LineReader(InputFile file) : file_(std::move(file)) {}

  InputFile file_;
  std::string buffer_;
  size_t at_ = 0;  // in the buffer, after the line that was returned last
  int64_t lines_ = 0, bytes_ = 0;
};

}  // namespace mantissa
