#include "cli/launch/host_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

namespace mantissa::cli {

HostFile::HostFile(const std::string& path) : path_(path) {
  constexpr const char* kMark = "\xef\xbb\xbf";
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.find('\r') == std::string::npos && !text.starts_with(kMark)) return;
  if (text.starts_with(kMark)) text.erase(0, 3);
  std::erase(text, '\r');
  copy_ = memfd_create("hosts", 0);
  if (copy_ < 0) return;
  const ssize_t written = write(copy_, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) path_ = "/dev/fd/" + std::to_string(copy_);
}

HostFile::~HostFile() {
  if (copy_ >= 0) close(copy_);
}

}  // namespace mantissa::cli
