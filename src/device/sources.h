// The C sources that exported programs consist of: src/reference and src/device/runtime, kept in
// the library as text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mantissa::device {

struct SourceText {
  std::string_view path;  // below src
  std::string_view text;
};

// All of them, in the order of their paths.
std::span<const SourceText> source_texts();

struct SourceFile {
  std::string path;
  std::string text;
};

// The headers, all headers that they include, and the sources that implement these: a source
// includes its own header first. Parts for C++ are left out.
std::vector<SourceFile> sources_of(std::span<const std::string> headers);

// A source without the parts that only C++ sees: REF_CXX(...), and lines between
// `#ifdef __cplusplus` and `#else` or `#endif`.
std::string without_cxx(std::string_view text);

}  // namespace mantissa::device
