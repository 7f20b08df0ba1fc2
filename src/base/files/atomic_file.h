// Files that are complete or absent, and reading that checks a size before it trusts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mantissa {

// Writes the concatenation of `pieces` to `path`, replacing the old file. It writes a temporary in
// the same folder (named `path` + ".tmp-PID-N", the name cut if that is too long), flushes it to
// disk, reads it back, compares, and renames it; then it flushes the folder. A reader, or a kill at
// any point, sees the old file or the new one. On an error (disk full, no such folder, ...) the
// temporary is removed and the old file is untouched, unless only the last flush of the folder
// failed.
Status write_file_atomically(const std::filesystem::path& path,
                             std::span<const std::span<const std::byte>> pieces);
// The same of pieces that are not all in memory at once: piece(i) is asked for twice, in order, and
// its bytes are valid until the next call.
using FilePiece = std::function<Result<std::span<const std::byte>>(size_t i)>;
Status write_file_atomically(const std::filesystem::path& path, size_t pieces,
                             const FilePiece& piece);
Status write_text_atomically(const std::filesystem::path& path, std::string_view text);

// The final name (without its folder) of the file that a temporary of this name was for; "" for any
// other file.
std::string temporary_target(std::string_view name);

// Removes a temporary that a killed process left. One that is still being written stays, without an
// error: its writer holds a lock on it (flock), in whatever container it runs.
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

  // Fills `out`; fewer bytes are an error.
  Status read_exactly(std::span<std::byte> out);

  // The same from a place in the file, in bytes from its start. Where read() goes on stays.
  Status read_at(int64_t offset, std::span<std::byte> out) const;

 private:
  InputFile(std::filesystem::path path, int descriptor, int64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace mantissa
