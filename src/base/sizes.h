// Sizes in bytes as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mantissa {

// Parses "1000000B", "512MiB", "2GiB" (units B, KiB, MiB, GiB, TiB; a decimal fraction is allowed
// before a binary unit). Anything else, zero and negative sizes are errors that say which form is
// wanted.
Result<int64_t> parse_bytes(std::string_view text);

// "1.5 GiB", "37.2 MiB", "512 B".
std::string format_bytes(int64_t bytes);

// The error that the system gave no memory, `bytes` of it, for a thing ("the arena").
Error out_of_memory(const std::string& thing, int64_t bytes,
                    SourceLocation where = SourceLocation::current());

}  // namespace mantissa
