#include "base/files/text_file.h"

#include <unistd.h>

#include <array>

#include "base/files/atomic_file.h"

namespace mantissa {

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

Result<std::string> read_text_file(const std::filesystem::path& path, int64_t max_bytes) {
  MANTISSA_ASSIGN(const auto bytes, read_file(path, max_bytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::string(without_byte_order_mark(text));
}

Status check_no_lfs_pointer(int descriptor, int64_t size, const std::filesystem::path& path) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/v1";
  constexpr int64_t kLargest = 1024;  // of a pointer, as Git LFS has it
  if (size < static_cast<int64_t>(kBegin.size()) || size > kLargest) return {};
  std::array<char, kBegin.size()> begin{};
  const ssize_t bytes = ::pread(descriptor, begin.data(), begin.size(), 0);
  if (bytes != static_cast<ssize_t>(begin.size())) return {};
  if (std::string_view(begin.data(), begin.size()) != kBegin) return {};
  return invalid_input("'" + path.string() + "' is a pointer of Git LFS to a file that was not " +
                       "fetched: git lfs pull, in its folder, fetches it");
}

}  // namespace mantissa
