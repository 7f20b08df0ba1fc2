// Files that are whole or not there, and reading that trusts no size before checking it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mantissa {

// Writes the concatenation of `pieces` to `path`, replacing what was there: a temporary in the same
// folder (named `path` + ".tmp-PID-N", the name cut where that is too long) is written, flushed to
// disk, read back and compared, and renamed; then the folder is flushed. A reader, or a kill at any
// point, sees the old file or the new one. On an error (disk full, no such folder, ...) the
// temporary is removed and the old file is untouched, unless only the last flush of the folder
// failed.
Status write_file_atomically(const std::filesystem::path& path,
                             std::span<const std::span<const std::byte>> pieces);
Status write_text_atomically(const std::filesystem::path& path, std::string_view text);

// The file name (without its folder) that a temporary of that name was to become; "" for any other
// file.
std::string temporary_target(std::string_view name);

// Removes a temporary that a killed process left behind. One that is still being written stays, and
// that is no error: its writer holds a lock on it (flock), in whatever container it runs.
Status remove_dead_temporary(const std::filesystem::path& path);

// Reads a whole regular file. Larger than max_bytes, missing or not a regular file (a folder, pipe
// or device) is an error that names the file; nothing is allocated before the size is checked.
Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, int64_t max_bytes);

// A regular file opened for reading from its start.
class InputFile {
 public:
  // Errors: missing, not readable, not a regular file (so that no read can hang), a pointer of Git
  // LFS.
  static Result<InputFile> open(const std::filesystem::path& path);

  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;

  // Its size when it was opened.
  int64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

  // Fills `out` from where the last read ended; returns how many bytes were there: fewer than
  // out.size() only at the end of the file.
  Result<int64_t> read(std::span<std::byte> out);

  // Fills `out`; fewer bytes than that are an error.
  Status read_exactly(std::span<std::byte> out);

 private:
  InputFile(std::filesystem::path path, int descriptor, int64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace mantissa
