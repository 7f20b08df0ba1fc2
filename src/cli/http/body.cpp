#include "cli/http/body.h"

#include <array>
#include <new>

namespace mantissa::cli {

bool HttpBody::knows(std::string_view encoding) {
  return encoding.empty() || encoding == "identity" || encoding == "gzip" || encoding == "x-gzip" ||
         encoding == "deflate";
}

HttpBody::HttpBody(std::string_view encoding, size_t most_bytes)
    : is_packed_(!encoding.empty() && encoding != "identity"), most_bytes_(most_bytes) {
  constexpr int kEitherHeader = 15 + 32;  // gzip's or zlib's
  if (is_packed_ && inflateInit2(&stream_, kEitherHeader) != Z_OK) throw std::bad_alloc();
}

HttpBody::~HttpBody() {
  if (is_packed_) inflateEnd(&stream_);
}

bool HttpBody::take(std::string_view bytes) {
  if (is_too_large_ || is_broken_) return false;
  received_ += bytes.size();
  const bool taken = received_ <= most_bytes_ && (is_packed_ ? inflate(bytes) : append(bytes));
  if (!taken && !is_broken_) is_too_large_ = true;
  if (!taken) text = std::string();
  return taken;
}

bool HttpBody::append(std::string_view bytes) {
  if (bytes.size() > most_bytes_ - text.size()) return false;
  text.append(bytes);
  return true;
}

bool HttpBody::inflate(std::string_view bytes) {
  std::array<char, 16384> piece;
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream_.avail_in = static_cast<uInt>(bytes.size());
  do {
    is_broken_ = has_ended_ && stream_.avail_in > 0;
    if (is_broken_ || has_ended_) return !is_broken_;
    stream_.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream_.avail_out = piece.size();
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    has_ended_ = code == Z_STREAM_END;
    is_broken_ = code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR;
    if (is_broken_ || !append({piece.data(), piece.size() - stream_.avail_out})) return false;
  } while (stream_.avail_in > 0 || stream_.avail_out == 0);
  return true;
}

int HttpBody::fault(std::string& why) const {
  if (is_too_large_) why = "more than " + std::to_string(most_bytes_ >> 20) + " MiB";
  if (is_too_large_) return 413;
  if (!is_broken_ && (!is_packed_ || has_ended_)) return 0;
  why = "the body cannot be read to its end";
  return 400;
}

}  // namespace mantissa::cli
