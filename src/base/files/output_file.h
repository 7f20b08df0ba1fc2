// Files that grow while a run goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace mantissa {

// Writes all bytes at the descriptor's position. `path` is named in errors.
Status write_all(int descriptor, std::span<const std::byte> bytes,
                 const std::filesystem::path& path);

// Flushes the written bytes to the disk. `path` is named in errors.
Status flush_to_disk(int descriptor, const std::filesystem::path& path);

// A regular file opened for writing at its end. Nothing is buffered: each write has reached the
// system when it returns, or is an error.
class OutputFile {
 public:
  // Opens the file, made if need be, and cuts it back to its first `kept_bytes`.
  static Result<OutputFile> open(const std::filesystem::path& path, int64_t kept_bytes);

  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }

  Status write(std::string_view bytes);

  // Survives a loss of power when it returns.
  Status flush() { return flush_to_disk(descriptor_, path_); }

 private:
  OutputFile(std::filesystem::path path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace mantissa
