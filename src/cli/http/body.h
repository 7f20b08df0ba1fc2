// The body of a request as it comes: decoded piece by piece, within a limit.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace mantissa::cli {

class HttpBody {
 public:
  HttpBody(std::string_view encoding, size_t most_bytes);
  ~HttpBody();
  HttpBody(const HttpBody&) = delete;
  HttpBody& operator=(const HttpBody&) = delete;

  static bool knows(std::string_view encoding);

  // False: the rest of the body is not wanted.
  bool take(std::string_view bytes);
  // The status that refuses the body, and why; 0: it is there, whole.
  int fault(std::string& why) const;

  size_t received() const { return received_; }  // bytes, as sent
  std::string text;

 private:
  bool append(std::string_view bytes);
  bool inflate(std::string_view bytes);

  bool is_packed_;
  size_t most_bytes_;
  size_t received_ = 0;
  bool is_too_large_ = false, is_broken_ = false, has_ended_ = false;
  z_stream stream_ = {};
};

}  // namespace mantissa::cli
