// GGUF files: bytes are refused in one line, or all values are looked at and all tensors are read.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "formats/gguf/gguf.h"

namespace mantissa {
namespace {

void check(bool holds, const char* what, const std::string& text) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, text.c_str());
  std::abort();
}

void check_line(const std::string& message) {
  check(!message.empty() && message.size() < 3000 &&
            std::find(message.begin(), message.end(), '\n') == message.end(),
        "not one line", message);
}

// Asks for a value as each type: the right one gives it, the others an error.
void look_at(const GgufFile& file, const GgufKey& key) {
  int given = 0;
  const auto take = [&](const auto& value) {
    if (value.ok()) ++given;
    if (!value.ok()) check_line(value.error().message);
  };
  take(file.text(key.name));
  take(file.whole(key.name));
  take(file.real(key.name));
  take(file.truth(key.name));
  take(file.texts(key.name));
  take(file.wholes(key.name));
  check(given <= 1, "has two types", key.name);  // 0: an array of real numbers
  check_line(file.described(key));
}

}  // namespace
}  // namespace mantissa

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mantissa;
  const auto read_at = [&](int64_t offset, std::span<std::byte> out) -> Status {
    check(offset >= 0 && out.size() <= size && static_cast<size_t>(offset) <= size - out.size(),
          "reads outside of the file", std::to_string(offset));
    if (!out.empty()) std::memcpy(out.data(), data + offset, out.size());
    return {};
  };
  const auto file = GgufFile::read("input.gguf", static_cast<int64_t>(size), read_at);
  if (!file.ok()) {
    check_line(file.error().message);
    return 0;
  }
  for (const GgufKey& key : file->keys()) look_at(*file, key);
  for (const GgufTensor& tensor : file->tensors()) {
    const auto floats = file->floats(tensor);
    check(floats.ok(), "cannot be read", tensor.name);
    check(static_cast<int64_t>(floats->size()) == tensor.count(), "other size", tensor.name);
  }
  return 0;
}
