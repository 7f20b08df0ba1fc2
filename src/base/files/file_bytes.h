// Bytes of files in memory: a whole file, or only the parts that a caller asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace mantissa {

// A regular file as it was read. It is not mapped: if somebody shortens a mapped file, the process
// that reads it is killed. Errors of all functions: missing, not readable, cut short while it is
// read.
class FileBytes {
 public:
  // All of a file. Errors: not a regular file, larger than max_bytes or than memory.
  static Result<std::shared_ptr<const FileBytes>> read(const std::filesystem::path& path,
                                                       int64_t max_bytes);

  // A file in `folder` or below it that must lie there itself: `name` is relative, has no "..", and
  // no part of it is a link; the file has one hard link. So no file from elsewhere can be reached.
  // One kind of link is followed: in the cache of a download, from below ROOT/snapshots to a file
  // of ROOT/blobs of the same download. Only the requested parts are read, and take memory.
  static Result<std::shared_ptr<FileBytes>> open_inside(const std::filesystem::path& folder,
                                                        const std::filesystem::path& name);

  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  // All bytes of a file that was read whole.
  std::span<const std::byte> bytes() const { return bytes_; }
  // This many bytes of the file, from an offset on; read if they have not been read yet.
  Result<std::span<const std::byte>> part(int64_t offset, int64_t bytes);

 private:
  FileBytes(int descriptor, std::filesystem::path path)
      : descriptor_(descriptor), path_(std::move(path)) {}
  static Result<std::shared_ptr<FileBytes>> open(int descriptor, const std::filesystem::path& path,
                                                 int64_t max_bytes, bool one_link);
  Status read_block(size_t block);

  int descriptor_;
  std::filesystem::path path_;
  std::span<std::byte> bytes_;               // reserved; memory is used only where it was read
  std::vector<bool> has_block_;              // which blocks were read
  int64_t bytes_read_ = 0, most_bytes_ = 0;  // of memory; 0: no limit is known
};

}  // namespace mantissa
