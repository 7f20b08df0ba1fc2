// For tests: a folder that is removed at the end with everything in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace mantissa {

class TestFolder {
 public:
  // In memory if the system has such a place: tests that write thousands of files stay fast.
  TestFolder() {
    for (const std::filesystem::path& place :
         {std::filesystem::path("/dev/shm"), std::filesystem::temp_directory_path()}) {
      std::string pattern = (place / "mantissa-test-XXXXXX").string();
      if (mkdtemp(pattern.data()) == nullptr) continue;
      path_ = pattern;
      return;
    }
  }
  ~TestFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // The path of a file of that name in the folder.
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  // The number of files and folders in it.
  int64_t count() const {
    return std::distance(std::filesystem::directory_iterator(path_),
                         std::filesystem::directory_iterator());
  }

 private:
  std::filesystem::path path_;
};

// Writes a file for a test to read; neither atomic nor checked.
inline void put_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

template <typename Bytes>
void put_file(const std::filesystem::path& path, const Bytes& bytes) {
  // An array's span has a fixed size, which this template would take again.
  put_file(path, std::span<const std::byte>(std::as_bytes(std::span(bytes))));
}

// All bytes of a file that a test wrote; empty if there is none.
inline std::string get_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace mantissa
