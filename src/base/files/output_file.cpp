#include "base/files/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/files/file_system.h"

namespace mantissa {

Status write_all(int descriptor, std::span<const std::byte> bytes,
                 const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), std::min(bytes.size(), kMaxTransfer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(file_message("write", path, errno));
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status flush_to_disk(int descriptor, const std::filesystem::path& path) {
  if (::fsync(descriptor) != 0) return failed(file_message("flush", path, errno));
  return {};
}

Result<OutputFile> OutputFile::open(const std::filesystem::path& path, int64_t kept_bytes) {
  // O_NONBLOCK: a pipe without a reader is an error, not a wait.
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (descriptor < 0) return file_error("write", path, errno);
  OutputFile file(path, descriptor);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return file_error("examine", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return invalid_input("'" + path.string() + "' is not a regular file");
  }
  if (status.st_size > kept_bytes && ::ftruncate(descriptor, kept_bytes) != 0) {
    return failed(file_message("cut back", path, errno));
  }
  return file;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Status OutputFile::write(std::string_view bytes) {
  return write_all(descriptor_, std::as_bytes(std::span(bytes)), path_);
}

}  // namespace mantissa
