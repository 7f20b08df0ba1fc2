// Text files as people's programs write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mantissa {

// A text without the byte order mark that Windows programs put before UTF-8. It is no character.
std::string_view without_byte_order_mark(std::string_view text);

// A text file, without such a mark. Errors as read_file.
Result<std::string> read_text_file(const std::filesystem::path& path, int64_t max_bytes);

// An error for an open file that is only a pointer of Git LFS, since the real file was not fetched.
Status check_no_lfs_pointer(int descriptor, int64_t size, const std::filesystem::path& path);

}  // namespace mantissa
