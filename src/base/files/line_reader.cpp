#include "base/files/line_reader.h"

#include <span>
#include <string>

#include "base/sizes.h"

namespace mantissa {

Result<LineReader> LineReader::open(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(InputFile file, InputFile::open(path));
  return LineReader(std::move(file));
}

Result<std::optional<std::string_view>> LineReader::next() {
  constexpr size_t kPart = size_t{1} << 16, kLongestLine = size_t{64} << 20;
  for (size_t searched = at_;;) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      const std::string_view line = std::string_view(buffer_).substr(at_, end - at_);
      at_ = end + 1;
      ++lines_;
      bytes_ += static_cast<int64_t>(line.size()) + 1;
      return std::optional(line);
    }
    buffer_.erase(0, std::exchange(at_, 0));
    searched = buffer_.size();
    if (searched > kLongestLine) {
      return invalid_input("'" + file_.path().string() + "', line " + std::to_string(lines_ + 1) +
                           ": is longer than " + format_bytes(kLongestLine));
    }
    buffer_.resize(searched + kPart);
    const auto part = std::as_writable_bytes(std::span(buffer_)).subspan(searched);
    MANTISSA_ASSIGN(const int64_t read, file_.read(part));
    buffer_.resize(searched + static_cast<size_t>(read));
    if (read == 0) return std::optional<std::string_view>();
  }
}

}  // namespace mantissa
