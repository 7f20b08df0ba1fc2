#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <utility>

#include "base/sizes.h"

namespace mantissa {
namespace {

// Linux moves at most 2 GiB - 4 KiB in one call.
constexpr size_t kMaxTransfer = size_t{1} << 30;
constexpr size_t kVerifyBytes = size_t{1} << 16;

// "cannot DO 'PATH': REASON", the reason from errno.
std::string system_message(const char* action, const std::filesystem::path& path) {
  const int reason = errno;
  return std::string("cannot ") + action + " '" + path.string() + "': " + std::strerror(reason);
}

// `path` with a suffix to its name. What makes the name too long for a file is left out before it.
std::filesystem::path with_suffix(const std::filesystem::path& path, const std::string& suffix) {
  std::string name = path.filename().string();
  size_t length = std::min(name.size(), size_t{NAME_MAX} - suffix.size());
  const auto is_inside_character = [&] {  // of UTF-8, which some file systems insist on
    return length < name.size() && (static_cast<unsigned char>(name[length]) & 0xC0) == 0x80;
  };
  while (length > 0 && is_inside_character()) --length;
  return path.parent_path() / (name.substr(0, length) + suffix);
}

// The temporary: closed and removed unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target) : path_(target) {
    static std::atomic<uint32_t> count{0};
    do {
      path_ = with_suffix(
          target, ".tmp-" + std::to_string(getpid()) + "-" + std::to_string(count.fetch_add(1)));
      descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 && errno == EEXIST);  // left by a killed process with the same id
  }
  ~TemporaryFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    if (!renamed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  const std::filesystem::path& path() const { return path_; }

  Status write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransfer));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed(system_message("write", path_));
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  Status flush() {
    if (::fsync(descriptor_) != 0) return failed(system_message("flush", path_));
    return {};
  }

  // Compares the file from its start with the pieces.
  Status verify(std::span<const std::span<const std::byte>> pieces) {
    // So that the bytes come from the disk where the system can do that, not from its cache.
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
    std::byte buffer[kVerifyBytes];
    off_t offset = 0;
    for (std::span<const std::byte> piece : pieces) {
      while (!piece.empty()) {
        const ssize_t n =
            ::pread(descriptor_, buffer, std::min(piece.size(), kVerifyBytes), offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(system_message("read back", path_));
        if (n == 0 || std::memcmp(buffer, piece.data(), static_cast<size_t>(n)) != 0) {
          return failed("'" + path_.string() + "' reads back different from what was written" +
                        " near byte " + std::to_string(offset) + "; is the disk failing?");
        }
        piece = piece.subspan(static_cast<size_t>(n));
        offset += n;
      }
    }
    return {};
  }

  Status rename_to(const std::filesystem::path& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) {
      return failed(system_message("replace", target));
    }
    renamed_ = true;
    return {};
  }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

// Makes the rename durable.
Status flush_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return failed(system_message("open the folder", folder));
  const bool flushed = ::fsync(descriptor) == 0 || errno == EINVAL;  // EINVAL: nothing to flush
  Status status;
  if (!flushed) status = failed(system_message("flush the folder", folder));
  ::close(descriptor);
  return status;
}

}  // namespace

Status write_text_atomically(const std::filesystem::path& path, std::string_view text) {
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  return write_file_atomically(path, std::span(&piece, 1));
}

Status write_file_atomically(const std::filesystem::path& path,
                             std::span<const std::span<const std::byte>> pieces) {
  {
    TemporaryFile temporary(path);
    if (!temporary.is_open()) return failed(system_message("create", temporary.path()));
    for (const std::span<const std::byte> piece : pieces) {
      MANTISSA_RETURN_IF_ERROR(temporary.write(piece));
    }
    MANTISSA_RETURN_IF_ERROR(temporary.flush());
    MANTISSA_RETURN_IF_ERROR(temporary.verify(pieces));
    MANTISSA_RETURN_IF_ERROR(temporary.rename_to(path));
  }
  return flush_folder(path.has_parent_path() ? path.parent_path() : ".");
}

Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, int64_t max_bytes) {
  MANTISSA_ASSIGN(InputFile file, InputFile::open(path));
  if (file.size() > max_bytes) {
    return invalid_input("'" + path.string() + "' is too large: " + format_bytes(file.size()) +
                         ", and at most " + format_bytes(max_bytes) + " is expected");
  }
  std::vector<std::byte> bytes;
  try {
    bytes.resize(static_cast<size_t>(file.size()));
  } catch (const std::bad_alloc&) {
    return failed("'" + path.string() + "' does not fit the memory: " + format_bytes(file.size()));
  }
  MANTISSA_RETURN_IF_ERROR(file.read_exactly(bytes));
  return bytes;
}

Result<InputFile> InputFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer; it changes nothing for plain files.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return invalid_input(system_message("open", path));
  InputFile file(path, descriptor, 0);
  struct stat status;
  if (::fstat(descriptor, &status) != 0) return invalid_input(system_message("examine", path));
  if (S_ISDIR(status.st_mode)) return invalid_input("'" + path.string() + "' is a folder");
  if (!S_ISREG(status.st_mode)) {
    return invalid_input("'" + path.string() + "' is not a regular file");
  }
  file.size_ = status.st_size;
  return file;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

Result<int64_t> InputFile::read(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        ::read(descriptor_, out.data() + done, std::min(out.size() - done, kMaxTransfer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(system_message("read", path_));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return static_cast<int64_t>(done);
}

Status InputFile::read_exactly(std::span<std::byte> out) {
  MANTISSA_ASSIGN(const int64_t done, read(out));
  if (done == static_cast<int64_t>(out.size())) return {};
  return invalid_input("'" + path_.string() + "' is cut short: " + std::to_string(out.size()) +
                       " more bytes are needed and " + std::to_string(done) + " are there");
}

}  // namespace mantissa
