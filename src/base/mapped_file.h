// Files whose bytes are looked at in place: nothing is read that nobody looks at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/result.h"

namespace mantissa {

// The bytes of a regular file, read-only. Whoever shortens the file meanwhile ends this process
// (SIGBUS), as with every mapping.
class MappedFile {
 public:
  // Errors: missing, not readable, not a regular file, larger than max_bytes.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path,
                                                        int64_t max_bytes);

  // A file in `folder` or below it that must lie there itself: `name` is relative, has no "..", and
  // no part of it is a link; the file has one hard link. So no file from elsewhere can be reached.
  static Result<std::shared_ptr<const MappedFile>> open_inside(const std::filesystem::path& folder,
                                                               const std::filesystem::path& name,
                                                               int64_t max_bytes);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  static Result<std::shared_ptr<const MappedFile>> map(int descriptor,
                                                       const std::filesystem::path& path,
                                                       int64_t max_bytes, bool one_link);

  std::span<const std::byte> bytes_;
};

}  // namespace mantissa
