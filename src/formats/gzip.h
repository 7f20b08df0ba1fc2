// Reading files that may be gzip-compressed (RFC 1952), in bounded memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace mantissa {

// The bytes of a file. They are decompressed if the file begins with gzip's magic. Holds about 100
// KiB, whatever the size of the file.
class ByteReader {
 public:
  // Errors: as InputFile::open.
  static Result<ByteReader> open(const std::filesystem::path& path);

  ~ByteReader();
  ByteReader(ByteReader&&) noexcept;
  ByteReader& operator=(ByteReader&&) noexcept;

  // Fills `out`; returns how many bytes there were: fewer than out.size() only at the end of the
  // data. A gzip file that is damaged, cut short or followed by something else is an error.
  Result<int64_t> read(std::span<uint8_t> out);

  // Fills `out`; fewer bytes than that are an error.
  Status read_exactly(std::span<uint8_t> out);

  // An error unless all bytes were read (and the checksum of a gzip file was right).
  Status expect_end();

  // An upper bound of the bytes that are still to come, from the size of the file alone (deflate
  // shrinks at most 1032 times): a claim above it is false and must not be allocated.
  int64_t most_bytes_left() const;

  bool compressed() const;

  const std::filesystem::path& path() const;

  // An error about this file: "'FILE': reason".
  Error error(const std::string& what) const;

 private:
  struct State;
  explicit ByteReader(std::unique_ptr<State> state);
  Status end_member();
  std::unique_ptr<State> state_;
};

// Appends exactly `bytes` bytes of the reader to `out`. Address space is reserved at once and
// memory is touched only as data arrives, so a false claim costs no memory and a true one no copy.
Status read_growing(ByteReader& reader, int64_t bytes, std::vector<uint8_t>& out);

// All bytes of a plain or gzip-compressed file; more than max_bytes (>= 0) is an error.
Result<std::vector<uint8_t>> read_maybe_gzip(const std::filesystem::path& path, int64_t max_bytes);

}  // namespace mantissa
