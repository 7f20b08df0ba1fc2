#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/file_system.h"
#include "base/sizes.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// O_NONBLOCK: opening a pipe must not wait for who writes into it.
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

 private:
  int number_;
};

Error outside(const fs::path& name) {
  return invalid_input("'" + name.string() +
                       "' may lead out of the folder: a path there is relative, without '..' and "
                       "without links");
}

}  // namespace

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Result<std::shared_ptr<const MappedFile>> MappedFile::map(int descriptor, const fs::path& path,
                                                          int64_t max_bytes, bool one_link) {
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
  if (status.st_size == 0) return std::shared_ptr<const MappedFile>(new MappedFile({}));
  const auto size = static_cast<size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) return file_error("map", path, errno);
  return std::shared_ptr<const MappedFile>(
      new MappedFile({static_cast<const std::byte*>(address), size}));
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const fs::path& path,
                                                           int64_t max_bytes) {
  const Descriptor file(::open(path.c_str(), kFileFlags));
  if (file.get() < 0) return file_error("open", path, errno);
  return map(file.get(), path, max_bytes, false);
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open_inside(const fs::path& folder,
                                                                  const fs::path& name,
                                                                  int64_t max_bytes) {
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
    // ENOTDIR: a link where a folder is wanted.
    if (errno == ELOOP || errno == ENOTDIR) return outside(name);
    return file_error("open", start / name, errno);
  }
  return map(place.get(), start / name, max_bytes, true);
}

}  // namespace mantissa
