#include "formats/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/sizes.h"

namespace mantissa {
namespace {

constexpr int64_t kInputBytes = 1 << 16;
constexpr int64_t kGrowBytes = 1 << 20;
// Deflate spends at least two bits on 258 bytes.
constexpr int64_t kMaxExpansion = 1032;
constexpr int64_t kPendingBytes = 16;
constexpr int kGzipWindowBits = 15 + 16;  // 16: expect gzip's header and trailer

// Address space only: pages that are never written take no memory.
Status reserve(const ByteReader& reader, int64_t bytes, std::vector<uint8_t>& out) {
  try {
    out.reserve(static_cast<size_t>(bytes));
  } catch (const std::exception&) {  // bad_alloc or length_error
    return out_of_memory("what '" + reader.path().string() + "' holds", bytes);
  }
  return {};
}

}  // namespace

// zlib keeps a pointer to the stream, so the state must not move.
struct ByteReader::State {
  explicit State(InputFile opened) : file(std::move(opened)) {}
  ~State() {
    if (compressed) inflateEnd(&stream);
  }

  // Refills the input if it is used up.
  Status refill() {
    if (stream.avail_in > 0 || file_ended) return {};
    MANTISSA_ASSIGN(const int64_t n, file.read(std::as_writable_bytes(std::span(input))));
    stream.next_in = input.data();
    stream.avail_in = static_cast<uInt>(n);
    file_bytes_read += n;
    file_ended = n < kInputBytes;
    return {};
  }

  InputFile file;
  std::array<uint8_t, kInputBytes> input;
  z_stream stream{};  // for a plain file only next_in and avail_in are used
  int64_t file_bytes_read = 0;
  bool compressed = false;
  bool file_ended = false;
  bool member_ended = false;  // the last gzip member is complete and nothing follows
};

ByteReader::ByteReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ByteReader::~ByteReader() = default;
ByteReader::ByteReader(ByteReader&&) noexcept = default;
ByteReader& ByteReader::operator=(ByteReader&&) noexcept = default;

const std::filesystem::path& ByteReader::path() const { return state_->file.path(); }

bool ByteReader::compressed() const { return state_->compressed; }

Error ByteReader::error(const std::string& what) const {
  return invalid_input("'" + path().string() + "': " + what);
}

Result<ByteReader> ByteReader::open(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(InputFile file, InputFile::open(path));
  auto state = std::make_unique<State>(std::move(file));
  MANTISSA_RETURN_IF_ERROR(state->refill());
  z_stream& stream = state->stream;
  if (stream.avail_in >= 2 && state->input[0] == 0x1f && state->input[1] == 0x8b) {
    if (inflateInit2(&stream, kGzipWindowBits) != Z_OK) {
      return failed("no memory to unpack '" + path.string() + "'");
    }
    state->compressed = true;
  }
  return ByteReader(std::move(state));
}

int64_t ByteReader::most_bytes_left() const {
  const State& state = *state_;
  const int64_t in_file = std::max<int64_t>(state.file.size() - state.file_bytes_read, 0);
  const int64_t left = in_file + state.stream.avail_in;
  if (!state.compressed) return left;
  // A few bytes more, for those that zlib has taken in and not yet given out.
  const int64_t most = std::numeric_limits<int64_t>::max() / kMaxExpansion - kPendingBytes;
  return (std::min(left, most) + kPendingBytes) * kMaxExpansion;
}

Result<int64_t> ByteReader::read(std::span<uint8_t> out) {
  State& state = *state_;
  z_stream& stream = state.stream;
  size_t done = 0;
  while (done < out.size() && !state.member_ended) {
    MANTISSA_RETURN_IF_ERROR(state.refill());
    const size_t wanted = std::min<size_t>(out.size() - done, 1 << 30);
    if (!state.compressed) {
      if (stream.avail_in == 0) break;
      const size_t n = std::min<size_t>(wanted, stream.avail_in);
      std::copy_n(stream.next_in, n, out.data() + done);
      stream.next_in += n;
      stream.avail_in -= static_cast<uInt>(n);
      done += n;
      continue;
    }
    if (stream.avail_in == 0) return error("the gzip data are cut short");
    stream.next_out = out.data() + done;
    stream.avail_out = static_cast<uInt>(wanted);
    const int code = inflate(&stream, Z_NO_FLUSH);
    done += wanted - stream.avail_out;
    if (code == Z_STREAM_END) {
      MANTISSA_RETURN_IF_ERROR(end_member());
    } else if (code == Z_MEM_ERROR) {
      return failed("no memory to unpack '" + path().string() + "'");
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return error(std::string("the gzip data are damaged (") +
                   (stream.msg != nullptr ? stream.msg : "zlib error") + ")");
    }
  }
  return static_cast<int64_t>(done);
}

// A gzip file is one member or several, one after the other (RFC 1952, section 2.2).
Status ByteReader::end_member() {
  State& state = *state_;
  MANTISSA_RETURN_IF_ERROR(state.refill());
  if (state.stream.avail_in == 0) {
    state.member_ended = true;
    return {};
  }
  if (state.stream.next_in[0] != 0x1f) return error("something follows the gzip data");
  inflateReset(&state.stream);
  return {};
}

Status ByteReader::read_exactly(std::span<uint8_t> out) {
  MANTISSA_ASSIGN(const int64_t done, read(out));
  if (done == static_cast<int64_t>(out.size())) return {};
  return error("cut short: " + std::to_string(out.size()) + " more bytes are needed and " +
               std::to_string(done) + " are there");
}

Status ByteReader::expect_end() {
  uint8_t extra;
  MANTISSA_ASSIGN(const int64_t done, read({&extra, 1}));
  if (done > 0) return error("there are more bytes than its header says");
  return {};
}

Status read_growing(ByteReader& reader, int64_t bytes, std::vector<uint8_t>& out) {
  if (bytes > reader.most_bytes_left()) {
    return reader.error("cut short: " + format_bytes(bytes) + " are needed, more than it can hold");
  }
  MANTISSA_RETURN_IF_ERROR(reserve(reader, static_cast<int64_t>(out.size()) + bytes, out));
  while (bytes > 0) {
    const int64_t step = std::min(bytes, kGrowBytes);
    out.resize(out.size() + static_cast<size_t>(step));
    MANTISSA_RETURN_IF_ERROR(reader.read_exactly(std::span(out).last(static_cast<size_t>(step))));
    bytes -= step;
  }
  return {};
}

Result<std::vector<uint8_t>> read_maybe_gzip(const std::filesystem::path& path, int64_t max_bytes) {
  MANTISSA_ASSIGN(ByteReader reader, ByteReader::open(path));
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> step(static_cast<size_t>(kInputBytes));
  MANTISSA_RETURN_IF_ERROR(reserve(reader, std::min(max_bytes, reader.most_bytes_left()), bytes));
  while (true) {
    MANTISSA_ASSIGN(const int64_t n, reader.read(step));
    if (n > max_bytes - static_cast<int64_t>(bytes.size())) {
      return reader.error("too large: at most " + format_bytes(max_bytes) + " are expected");
    }
    bytes.insert(bytes.end(), step.begin(), step.begin() + n);
    if (n < kInputBytes) return bytes;
  }
}

}  // namespace mantissa
