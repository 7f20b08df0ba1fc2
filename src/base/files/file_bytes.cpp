#include "base/files/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/files/file_system.h"
#include "base/files/text_file.h"
#include "base/sizes.h"
#include "base/system/memory_limit.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// O_NONBLOCK: opening a pipe must not wait for its writer.
constexpr int kFileFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
constexpr int kFolderFlags = O_RDONLY | O_CLOEXEC | O_DIRECTORY;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void reset(int number) {
    if (number_ >= 0) ::close(number_);
    number_ = number;
  }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

constexpr size_t kBlockBytes = size_t{1} << 20;

Error outside(const fs::path& name) {
  return invalid_input("'" + name.string() +
                       "' may lead out of the folder: a path there is relative, without '..' and "
                       "without links");
}

Error linked(const fs::path& folder, const fs::path& name) {
  return invalid_input("'" + name.string() +
                       "' is, or lies behind, a link, which may lead out of the folder: copy the "
                       "folder with what its links lead to: cp -rL '" +
                       folder.string() + "' COPY");
}

// The target of a link in the cache of a download, as Hugging Face's hub lays it out: from below
// ROOT/snapshots to a file of ROOT/blobs. The name there; empty for other links.
struct CachedFile {
  fs::path blobs, name;
};
CachedFile cached_file(const fs::path& link) {
  std::error_code error;
  const fs::path folder = fs::canonical(link.parent_path(), error);
  if (error) return {};
  const fs::path target = fs::canonical(link, error);
  if (error) return {};
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path()) {
    if (at.filename() != "snapshots") continue;
    const fs::path blobs = at.parent_path() / "blobs";
    if (target.parent_path() == blobs) return {blobs, target.filename()};
  }
  return {};
}

}  // namespace

FileBytes::~FileBytes() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::shared_ptr<FileBytes>> FileBytes::open(int descriptor, const fs::path& path,
                                                   int64_t max_bytes, bool one_link) {
  std::shared_ptr<FileBytes> file(new FileBytes(descriptor, path));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return file_error("examine", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return invalid_input("'" + path.string() + "' is not a regular file");
  }
  if (one_link && status.st_nlink != 1) {
    return invalid_input("'" + path.string() + "' has several hard links, which may lead out of " +
                         "the folder: copy the file");
  }
  if (status.st_size > max_bytes) {
    return invalid_input("'" + path.string() + "' has " + format_bytes(status.st_size) +
                         "; at most " + format_bytes(max_bytes) + " are read");
  }
  MANTISSA_RETURN_IF_ERROR(check_no_lfs_pointer(descriptor, status.st_size, path));
  if (status.st_size == 0) return file;
  const auto size = static_cast<size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return out_of_memory("'" + path.string() + "'", status.st_size);
  file->bytes_ = {static_cast<std::byte*>(address), size};
  file->most_bytes_ = memory_limit().bytes;
  file->has_block_.resize((size + kBlockBytes - 1) / kBlockBytes);
  return file;
}

Status FileBytes::read_block(size_t block) {
  const size_t first = block * kBlockBytes, end = std::min(first + kBlockBytes, bytes_.size());
  for (size_t at = first; at < end;) {
    const ssize_t count =
        ::pread(descriptor_, bytes_.data() + at, end - at, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error("read", path_, errno);
    if (count == 0) {
      return invalid_input("'" + path_.string() +
                           "' was cut short while it was read: " + std::to_string(at) + " of " +
                           std::to_string(bytes_.size()) + " bytes are there");
    }
    at += static_cast<size_t>(count);
  }
  has_block_[block] = true;
  bytes_read_ += static_cast<int64_t>(end - first);
  // A model may have thousands of files.
  if (bytes_read_ == size()) ::close(std::exchange(descriptor_, -1));
  return {};
}

Result<std::span<const std::byte>> FileBytes::part(int64_t offset, int64_t bytes) {
  const auto first = static_cast<size_t>(offset), count = static_cast<size_t>(bytes);
  const size_t begin = first / kBlockBytes;
  const size_t end = count == 0 ? begin : (first + count - 1) / kBlockBytes + 1;
  int64_t unread = 0;
  for (size_t block = begin; block < end; ++block)
    unread += has_block_[block] ? 0 : int64_t{kBlockBytes};
  if (most_bytes_ > 0 && unread > most_bytes_ - bytes_read_) {
    return make_error(ErrorCode::kOverBudget, "'" + path_.string() + "': " + format_bytes(unread) +
                                                  " of it are wanted, and there are " +
                                                  format_bytes(most_bytes_) + " of memory");
  }
  for (size_t block = begin; unread > 0 && block < end; ++block) {
    if (!has_block_[block]) MANTISSA_RETURN_IF_ERROR(read_block(block));
  }
  return std::span<const std::byte>(bytes_).subspan(first, count);
}

Result<std::shared_ptr<const FileBytes>> FileBytes::read(const fs::path& path, int64_t max_bytes) {
  Descriptor file(::open(path.c_str(), kFileFlags));
  if (file.get() < 0) return file_error("open", path, errno);
  MANTISSA_ASSIGN(std::shared_ptr<FileBytes> all, open(file.release(), path, max_bytes, false));
  MANTISSA_RETURN_IF_ERROR(all->part(0, all->size()));
  return std::shared_ptr<const FileBytes>(std::move(all));
}

Result<std::shared_ptr<FileBytes>> FileBytes::open_inside(const fs::path& folder,
                                                          const fs::path& name) {
  if (name.empty() || name.is_absolute() || name.native().find('\0') != std::string::npos) {
    return outside(name);
  }
  const fs::path start = folder.empty() ? fs::path(".") : folder;
  Descriptor place(::open(start.c_str(), kFolderFlags));
  if (place.get() < 0) return file_error("open", start, errno);
  // Part by part, so that nobody can put a link in between.
  for (auto part = name.begin(); part != name.end(); ++part) {
    if (*part == "..") return outside(name);
    const bool last = std::next(part) == name.end();
    const int flags = (last ? kFileFlags : kFolderFlags) | O_NOFOLLOW;
    place.reset(::openat(place.get(), part->c_str(), flags));
    if (place.get() >= 0) continue;
    const int reason = errno;
    if (reason == ELOOP && last) {
      const CachedFile cached = cached_file(start / name);
      if (!cached.name.empty()) return open_inside(cached.blobs, cached.name);
    }
    // ENOTDIR: a link where a folder is wanted.
    if (reason == ELOOP || reason == ENOTDIR) return linked(start, name);
    return file_error("open", start / name, reason);
  }
  return open(place.release(), start / name, INT64_MAX, true);
}

}  // namespace mantissa
