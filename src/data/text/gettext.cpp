#include "data/text/gettext.h"

#include <iconv.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <optional>
#include <utility>

#include "base/sizes.h"

namespace mantissa {
namespace {

constexpr uint32_t kMagic = 0x950412DE, kOtherMagic = 0xDE120495;
constexpr uint64_t kMostSharing = 4;  // times that a catalogue's bytes are used, on average
constexpr char kContextEnd = '\x04';
constexpr const char* kUtf8 = "UTF-8";

uint32_t swapped(uint32_t number) {
  return number << 24 | (number & 0xFF00) << 8 | (number >> 8 & 0xFF00) | number >> 24;
}

class Catalogue {
 public:
  static Result<Catalogue> open(std::string_view bytes) {
    Catalogue catalogue(bytes);
    constexpr uint64_t kHeader = 20;
    if (bytes.size() < kHeader) return invalid_input("is too short for a gettext catalogue");
    const uint32_t magic = catalogue.number(0);
    if (magic != kMagic && magic != kOtherMagic) {
      return invalid_input("is no gettext catalogue: it does not begin as one");
    }
    catalogue.is_swapped_ = magic == kOtherMagic;
    const uint32_t major = catalogue.number(4) >> 16;
    if (major > 1) {
      return invalid_input("is a gettext catalogue of revision " + std::to_string(major) +
                           "; 0 and 1 are known");
    }
    catalogue.count_ = catalogue.number(8);
    catalogue.originals_ = catalogue.number(12);
    catalogue.translations_ = catalogue.number(16);
    for (const uint64_t table : {catalogue.originals_, catalogue.translations_}) {
      if (table + uint64_t{catalogue.count_} * kEntry <= bytes.size()) continue;
      return invalid_input("is cut short: a table of " + std::to_string(catalogue.count_) +
                           " messages at byte " + std::to_string(table) + " ends beyond it");
    }
    return catalogue;
  }

  uint32_t count() const { return count_; }
  Result<std::string_view> original(uint32_t i) const { return text(originals_ + kEntry * i, i); }
  Result<std::string_view> translation(uint32_t i) const {
    return text(translations_ + kEntry * i, i);
  }

 private:
  static constexpr uint64_t kEntry = 8;  // length and offset

  explicit Catalogue(std::string_view bytes) : bytes_(bytes) {}

  uint32_t number(uint64_t at) const {
    uint32_t value = 0;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    if constexpr (std::endian::native == std::endian::big) value = swapped(value);
    return is_swapped_ ? swapped(value) : value;
  }

  Result<std::string_view> text(uint64_t entry, uint32_t i) const {
    const uint64_t length = number(entry), offset = number(entry + 4);
    if (offset + length <= bytes_.size()) return bytes_.substr(offset, length);
    return invalid_input("message " + std::to_string(i + 1) + ": its text, " +
                         std::to_string(length) + " bytes at byte " + std::to_string(offset) +
                         ", ends beyond the file");
  }

  std::string_view bytes_;
  bool is_swapped_ = false;
  uint32_t count_ = 0;
  uint64_t originals_ = 0, translations_ = 0;
};

// The charset that the header, the translation of "", names.
std::string charset_of(std::string_view header) {
  constexpr std::string_view kKey = "charset=";
  const size_t at = header.find(kKey);
  if (at == std::string_view::npos) return kUtf8;
  header.remove_prefix(at + kKey.size());
  const auto is_of_name = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == ':' || c == '.';
  };
  return {header.begin(), std::find_if_not(header.begin(), header.end(), is_of_name)};
}

// Brings texts of a charset to UTF-8.
class Converter {
 public:
  static Result<Converter> open(const std::string& charset) {
    Converter converter(iconv_open(kUtf8, charset.c_str()));
    if (converter.is_open()) return converter;
    return invalid_input("has the charset '" + charset + "', which this system does not know");
  }
  Converter(Converter&& other) noexcept : descriptor_(std::exchange(other.descriptor_, kNone)) {}
  Converter& operator=(Converter&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;
  ~Converter() {
    if (is_open()) iconv_close(descriptor_);
  }

  // The text, or nothing if it is not of the charset.
  std::optional<std::string> convert(std::string text) const {
    constexpr size_t kMostBytes = 4;  // of a character in UTF-8
    std::string result(text.size() * kMostBytes, '\0');
    char *from = text.data(), *to = result.data();
    size_t from_left = text.size(), to_left = result.size();
    iconv(descriptor_, nullptr, nullptr, nullptr, nullptr);
    if (iconv(descriptor_, &from, &from_left, &to, &to_left) != 0) return std::nullopt;
    result.resize(result.size() - to_left);
    return result;
  }

 private:
  static inline const iconv_t kNone = reinterpret_cast<iconv_t>(-1);
  explicit Converter(iconv_t descriptor) : descriptor_(descriptor) {}
  bool is_open() const { return descriptor_ != kNone; }
  iconv_t descriptor_;
};

// The first form without its context.
std::string first_form(std::string_view message) {
  if (const size_t end = message.find(kContextEnd); end != std::string_view::npos) {
    message.remove_prefix(end + 1);
  }
  return std::string(message.substr(0, message.find('\0')));
}

std::string one_line(std::string_view message) {
  std::string line;
  bool has_space = false;
  for (const char c : message) {
    const bool is_space = c == ' ' || (c >= '\t' && c <= '\r');
    if (!is_space) {
      if (has_space && !line.empty()) line += ' ';
      line += c;
    }
    has_space = is_space;
  }
  return line;
}

}  // namespace

Result<std::vector<SentencePair>> parse_catalogue(std::string_view bytes,
                                                  const std::string& document, int64_t& skipped) {
  MANTISSA_ASSIGN(const Catalogue catalogue, Catalogue::open(bytes));
  std::string charset = kUtf8;
  uint64_t text_bytes = 0;
  for (uint32_t i = 0; i < catalogue.count(); ++i) {
    MANTISSA_ASSIGN(const std::string_view original, catalogue.original(i));
    MANTISSA_ASSIGN(const std::string_view translation, catalogue.translation(i));
    if (original.empty()) charset = charset_of(translation);
    text_bytes += original.size() + translation.size();
  }
  if (text_bytes > kMostSharing * bytes.size()) {
    return invalid_input("has messages of " + format_bytes(static_cast<int64_t>(text_bytes)) +
                         " in " + format_bytes(std::ssize(bytes)) +
                         ": many point at the same text, as in no catalogue of gettext");
  }
  MANTISSA_ASSIGN(const Converter converter, Converter::open(charset));
  std::vector<SentencePair> pairs;
  skipped = 0;
  for (uint32_t i = 0; i < catalogue.count(); ++i) {
    MANTISSA_ASSIGN(const std::string_view original, catalogue.original(i));
    if (original.empty()) continue;  // the header
    MANTISSA_ASSIGN(const std::string_view translation, catalogue.translation(i));
    auto source = converter.convert(first_form(original));
    auto target = converter.convert(first_form(translation));
    if (!source || !target) {
      return invalid_input("message " + std::to_string(i + 1) + ": is not " + charset);
    }
    SentencePair pair{one_line(*source), one_line(*target), document};
    if (pair.source.empty() || pair.target.empty()) {
      ++skipped;
      continue;
    }
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace mantissa
