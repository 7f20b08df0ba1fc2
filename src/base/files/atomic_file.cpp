#include "base/files/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <utility>

#include "base/files/file_system.h"
#include "base/files/output_file.h"
#include "base/files/text_file.h"
#include "base/sizes.h"

namespace mantissa {
namespace {

constexpr size_t kVerifyBytes = size_t{1} << 16;
constexpr std::string_view kTemporaryMark = ".tmp-";

// `path` with a suffix to its name. A name too long for a file is cut before the suffix.
std::filesystem::path with_suffix(const std::filesystem::path& path, const std::string& suffix) {
  std::string name = path.filename().string();
  size_t length = std::min(name.size(), size_t{NAME_MAX} - suffix.size());
  const auto is_inside_character = [&] {  // of UTF-8, which some file systems insist on
    return length < name.size() && (static_cast<unsigned char>(name[length]) & 0xC0) == 0x80;
  };
  while (length > 0 && is_inside_character()) --length;
  return path.parent_path() / (name.substr(0, length) + suffix);
}

// An error if a read found fewer bytes than it was to find.
Status check_all_read(const std::filesystem::path& path, int64_t done, size_t wanted) {
  if (done == static_cast<int64_t>(wanted)) return {};
  return invalid_input("'" + path.string() + "' is cut short: " + std::to_string(wanted) +
                       " more bytes are needed and " + std::to_string(done) + " are there");
}

// The temporary: closed and removed unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target) : path_(target) {
    static std::atomic<uint32_t> count{0};
    do {
      path_ = with_suffix(target, std::string(kTemporaryMark) + std::to_string(getpid()) + "-" +
                                      std::to_string(count.fetch_add(1)));
      descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 ? errno == EEXIST  // left by a killed process with the same id
                             : !claimed());
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

  Status write(std::span<const std::byte> bytes) { return write_all(descriptor_, bytes, path_); }
  Status flush() { return flush_to_disk(descriptor_, path_); }

  // Compares the file from its start with the pieces.
  Status verify(size_t pieces, const FilePiece& piece_at) {
    // So that the bytes come from the disk and not from its cache, if the system can do that.
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
    std::byte buffer[kVerifyBytes];
    off_t offset = 0;
    for (size_t i = 0; i < pieces; ++i) {
      MANTISSA_ASSIGN(std::span<const std::byte> piece, piece_at(i));
      while (!piece.empty()) {
        const ssize_t n =
            ::pread(descriptor_, buffer, std::min(piece.size(), kVerifyBytes), offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(file_message("read back", path_, errno));
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
      return failed(file_message("replace", target, errno));
    }
    renamed_ = true;
    return {};
  }

 private:
  // Holds a lock on the file for as long as it is open, by which others see that it is alive. False
  // if it was taken for dead, and is closed, before it could.
  bool claimed() {
    struct stat status {};
    const bool lost = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!lost && (::fstat(descriptor_, &status) != 0 || status.st_nlink > 0)) return true;
    ::close(std::exchange(descriptor_, -1));
    return false;
  }

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

// Makes the rename durable.
Status flush_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return failed(file_message("open the folder", folder, errno));
  const bool flushed = ::fsync(descriptor) == 0 || errno == EINVAL;  // EINVAL: nothing to flush
  Status status;
  if (!flushed) status = failed(file_message("flush the folder", folder, errno));
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
  return write_file_atomically(
      path, pieces.size(),
      [&](size_t i) -> Result<std::span<const std::byte>> { return pieces[i]; });
}

Status write_file_atomically(const std::filesystem::path& path, size_t pieces,
                             const FilePiece& piece_at) {
  {
    TemporaryFile temporary(path);
    if (!temporary.is_open()) return failed(file_message("create", temporary.path(), errno));
    for (size_t i = 0; i < pieces; ++i) {
      MANTISSA_ASSIGN(const std::span<const std::byte> piece, piece_at(i));
      MANTISSA_RETURN_IF_ERROR(temporary.write(piece));
    }
    MANTISSA_RETURN_IF_ERROR(temporary.flush());
    MANTISSA_RETURN_IF_ERROR(temporary.verify(pieces, piece_at));
    MANTISSA_RETURN_IF_ERROR(temporary.rename_to(path));
  }
  return flush_folder(path.has_parent_path() ? path.parent_path() : ".");
}

std::string temporary_target(std::string_view name) {
  const size_t mark = name.rfind(kTemporaryMark);
  if (mark == std::string_view::npos) return "";
  const std::string_view numbers = name.substr(mark + kTemporaryMark.size());
  const size_t dash = numbers.find('-');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (dash == std::string_view::npos || !is_number(numbers.substr(0, dash)) ||
      !is_number(numbers.substr(dash + 1))) {
    return "";
  }
  return std::string(name.substr(0, mark));
}

Status remove_dead_temporary(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (descriptor < 0) return errno == ENOENT ? Status{} : file_error("open", path, errno);
  // Who writes it holds the lock. Removed while it is held here: nobody begins to write it now.
  Status status;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
    status = remove_file(path);
  } else if (errno != EWOULDBLOCK) {
    status = file_error("lock", path, errno);
  }
  ::close(descriptor);
  return status;
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
    return out_of_memory("what '" + path.string() + "' holds", file.size());
  }
  MANTISSA_RETURN_IF_ERROR(file.read_exactly(bytes));
  return bytes;
}

Result<InputFile> InputFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer; it changes nothing for plain files.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return file_error("open", path, errno);
  InputFile file(path, descriptor, 0);
  struct stat status;
  if (::fstat(descriptor, &status) != 0) return file_error("examine", path, errno);
  if (S_ISDIR(status.st_mode)) return invalid_input("'" + path.string() + "' is a folder");
  if (!S_ISREG(status.st_mode)) {
    return invalid_input("'" + path.string() + "' is not a regular file");
  }
  file.size_ = status.st_size;
  MANTISSA_RETURN_IF_ERROR(check_no_lfs_pointer(descriptor, file.size_, path));
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
    if (n < 0) return failed(file_message("read", path_, errno));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return static_cast<int64_t>(done);
}

Status InputFile::read_exactly(std::span<std::byte> out) {
  MANTISSA_ASSIGN(const int64_t done, read(out));
  return check_all_read(path_, done, out.size());
}

Status InputFile::read_at(int64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        ::pread(descriptor_, out.data() + done, std::min(out.size() - done, kMaxTransfer),
                static_cast<off_t>(offset) + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(file_message("read", path_, errno));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return check_all_read(path_, static_cast<int64_t>(done), out.size());
}

}  // namespace mantissa
