#include "formats/arrays/safetensors_header.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

namespace mantissa {
namespace {

constexpr size_t kMaxDims = 8;
constexpr size_t kMaxEntries = 1'000'000;
constexpr size_t kMaxMetadata = 1000;
constexpr size_t kMaxNameBytes = 4096;
constexpr size_t kReadableBytes = 100;
constexpr size_t kMaxTextBytes = size_t{16} << 20;  // of one text, as written in the JSON
constexpr std::string_view kMetadataKey = "__metadata__";

// Builds the header while nlohmann's parser walks over the text. No JSON tree is built: a tree can
// be many times larger than its text, and would silently keep the last of two equal names.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  std::string reason;

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("true or false"); }
  bool number_integer(number_integer_t) override { return refuse("negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return refuse("number that is no 64-bit integer");
  }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool number_unsigned(number_unsigned_t number) override {
    if (place_ != Place::kArray) return refuse("number");
    if (number > uint64_t{std::numeric_limits<int64_t>::max()}) return refuse("huge number");
    numbers_.push_back(static_cast<int64_t>(number));
    if (numbers_.size() > (key_ == "shape" ? kMaxDims : 2))
      return refuse("further number in a list");
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::kMetadata) {
      if (header.metadata.size() >= kMaxMetadata) return refuse("further metadata (too many)");
      if (header.metadata.emplace(key_, text).second) return true;
      return refuse("second metadata " + readable_name(key_));
    }
    if (place_ != Place::kTensor || key_ != "dtype") return refuse("string");
    header.entries.back().dtype = text;
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ != Place::kTop) return refuse("object");
    if (!names_.insert(key_).second) return refuse("second " + readable_name(key_));
    if (key_ == kMetadataKey) {
      place_ = Place::kMetadata;
      return true;
    }
    if (header.entries.size() >= kMaxEntries) return refuse("further tensor (too many)");
    place_ = Place::kTensor;
    header.entries.push_back({key_, "", {}, 0, 0});
    fields_.clear();
    return true;
  }

  bool key(string_t& text) override {
    if (text.size() > kMaxNameBytes) {
      return refuse("name of " + std::to_string(text.size()) + " bytes (at most " +
                    std::to_string(kMaxNameBytes) + ")");
    }
    key_ = text;
    if (place_ != Place::kTensor) return true;
    if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
      return refuse("key " + readable_name(key_) + " of a tensor");
    }
    if (fields_.insert(key_).second) return true;
    return refuse("second " + readable_name(key_));
  }

  bool end_object() override {
    if (place_ == Place::kTensor && fields_.size() != 3) {
      reason = "tensor " + readable_name(header.entries.back().name) +
               " lacks its dtype, shape or data_offsets";
      return false;
    }
    place_ = place_ == Place::kTop ? Place::kOutside : Place::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return refuse("list");
    place_ = Place::kArray;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    SafetensorsEntry& entry = header.entries.back();
    if (key_ == "shape") {
      entry.shape = numbers_;
      return true;
    }
    if (numbers_.size() != 2) return refuse("data_offsets that are not two numbers");
    entry.begin = numbers_[0];
    entry.end = numbers_[1];
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    reason = "its header is not JSON, at byte " + std::to_string(position);
    return false;
  }

 private:
  enum class Place { kOutside, kTop, kMetadata, kTensor, kArray };

  bool refuse(const std::string& what) {
    reason = "unexpected " + what + " in its header";
    if (!header.entries.empty())
      reason += ", near tensor " + readable_name(header.entries.back().name);
    return false;
  }

  Place place_ = Place::kOutside;
  std::string key_;
  std::vector<int64_t> numbers_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> fields_;
};

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

void append_entry(const SafetensorsEntry& entry, std::string& text) {
  text += quoted(entry.name) + ":{\"dtype\":" + quoted(entry.dtype) + ",\"shape\":[";
  for (size_t i = 0; i < entry.shape.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(entry.shape[i]);
  }
  text +=
      "],\"data_offsets\":[" + std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]}";
}

// Whether a JSON text has a longer string. The parser would copy it several times before the
// handler saw it.
bool has_longer_text(std::string_view json, size_t most_bytes) {
  size_t begin = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (in_string && json[i] == '\\') {
      ++i;
    } else if (json[i] == '"') {
      if (in_string && i - begin > most_bytes) return true;
      begin = i;
      in_string = !in_string;
    }
  }
  return in_string && json.size() - begin > most_bytes;
}

}  // namespace

std::string readable_name(const std::string& name) {
  return nlohmann::json(name.substr(0, kReadableBytes))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::string> print_safetensors_header(const SafetensorsHeader& header) {
  std::string text = "{";
  try {
    if (!header.metadata.empty()) {
      text += quoted(std::string(kMetadataKey)) + ":{";
      for (const auto& [key, value] : header.metadata) {
        if (text.back() != '{') text += ",";
        text += quoted(key) + ":" + quoted(value);
      }
      text += "}";
    }
    for (const SafetensorsEntry& entry : header.entries) {
      if (text.size() > 1) text += ",";
      append_entry(entry, text);
    }
  } catch (const nlohmann::json::exception&) {
    return invalid_input("a name or metadata text is not UTF-8");
  }
  text += "}";
  return text;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text) {
  // The parser takes a zero byte for the end of its input.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return invalid_input("its header is not JSON, at byte " + std::to_string(zero));
  }
  if (has_longer_text(text, kMaxTextBytes)) {
    return invalid_input("its header has a text of more than " +
                         std::to_string(kMaxTextBytes >> 20) + " MiB");
  }
  HeaderHandler handler;
  if (nlohmann::json::sax_parse(text, &handler)) return std::move(handler.header);
  return invalid_input(handler.reason.empty() ? "its header is not a JSON object" : handler.reason);
}

}  // namespace mantissa
