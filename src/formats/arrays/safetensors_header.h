// The JSON header of a safetensors file, as data; used by safetensors.cpp only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mantissa {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // its data, counted from the end of the header
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;
};

// A name as quoted JSON text of bounded length, so that no control character reaches a message.
std::string readable_name(const std::string& name);

// Compact JSON with sorted metadata and the entries in the given order, unpadded. The only error:
// text that is not UTF-8.
Result<std::string> print_safetensors_header(const SafetensorsHeader& header);

// Parses the header's JSON. Refuses, naming the place: bad JSON, unknown or missing keys, a name
// twice or of more than 4 KiB, a text of more than 16 MiB, numbers that are negative or too large,
// more than 8 dimensions, more than 1000 entries of metadata. Whether offsets and shapes make sense
// is not checked here.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view text);

}  // namespace mantissa
