#include "formats/arrays/npz.h"

#include <zip.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/sizes.h"
#include "base/system/shared_library.h"

namespace mantissa {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr size_t kStepBytes = 1 << 20;
constexpr zip_uint16_t kFirstDosDate = 1 << 5 | 1;  // 1 January 1980

// The functions of libzip that are used. It is loaded when it is first needed: with it come
// compression and encryption that nothing else here uses.
struct Zip {
  SharedLibrary library{MANTISSA_ZIP_LIBRARY};
  decltype(&zip_open) open = library.find("zip_open");
  decltype(&zip_open_from_source) open_from_source = library.find("zip_open_from_source");
  decltype(&zip_close) close = library.find("zip_close");
  decltype(&zip_discard) discard = library.find("zip_discard");
  decltype(&zip_strerror) archive_error = library.find("zip_strerror");
  decltype(&zip_error_init_with_code) error_init = library.find("zip_error_init_with_code");
  decltype(&zip_error_strerror) error_text = library.find("zip_error_strerror");
  decltype(&zip_error_fini) error_end = library.find("zip_error_fini");
  decltype(&zip_get_num_entries) entries = library.find("zip_get_num_entries");
  decltype(&zip_stat_index) stat = library.find("zip_stat_index");
  decltype(&zip_fopen_index) open_entry = library.find("zip_fopen_index");
  decltype(&zip_fread) read = library.find("zip_fread");
  decltype(&zip_file_strerror) entry_error = library.find("zip_file_strerror");
  decltype(&zip_fclose) close_entry = library.find("zip_fclose");
  decltype(&zip_file_add) add = library.find("zip_file_add");
  decltype(&zip_set_file_compression) set_compression = library.find("zip_set_file_compression");
  decltype(&zip_file_set_dostime) set_time = library.find("zip_file_set_dostime");
  decltype(&zip_source_buffer_create) buffer = library.find("zip_source_buffer_create");
  decltype(&zip_source_buffer_fragment_create) fragments =
      library.find("zip_source_buffer_fragment_create");
  decltype(&zip_source_keep) keep = library.find("zip_source_keep");
  decltype(&zip_source_free) free = library.find("zip_source_free");
  decltype(&zip_source_open) source_open = library.find("zip_source_open");
  decltype(&zip_source_read) source_read = library.find("zip_source_read");
  decltype(&zip_source_close) source_close = library.find("zip_source_close");
  decltype(&zip_source_stat) source_stat = library.find("zip_source_stat");
};

Result<const Zip*> load_zip() {
  static const Zip zip;
  if (zip.library.error().empty()) return &zip;
  return failed("NPZ files are read and written with libzip, which is not usable here (" +
                zip.library.error() + "); on Debian, install libzip-dev and build again");
}

using Archive = std::unique_ptr<zip_t, decltype(&zip_discard)>;
using Source = std::unique_ptr<zip_source_t, decltype(&zip_source_free)>;

// One line of a text that another library made, or of a name in a file.
std::string printable(std::string_view text) {
  std::string result(text.substr(0, 100));
  std::replace_if(
      result.begin(), result.end(), [](unsigned char c) { return c < 32 || c == 127; }, '?');
  return result;
}

// An entry that is being decompressed.
class Entry {
 public:
  static Result<Entry> open(const Zip& zip, zip_t* archive, zip_uint64_t index) {
    Entry entry(zip, zip.open_entry(archive, index, 0));
    if (entry.file_ == nullptr) return invalid_input(printable(zip.archive_error(archive)));
    return entry;
  }

  // Appends the next bytes, until `bytes` holds this many or the entry ends.
  Status read_to(size_t end, std::vector<std::byte>& bytes) const {
    bytes.reserve(std::min(end, kStepBytes));
    while (bytes.size() < end) {
      const size_t done = bytes.size();
      const size_t step = std::min(end - done, std::max(done, kStepBytes));
      bytes.resize(done + step);
      const zip_int64_t n = zip_.read(file_.get(), bytes.data() + done, step);
      if (n < 0) return invalid_input(printable(zip_.entry_error(file_.get())));
      bytes.resize(done + static_cast<size_t>(n));
      if (n == 0) break;
    }
    return {};
  }

 private:
  Entry(const Zip& zip, zip_file_t* file) : zip_(zip), file_(file, zip.close_entry) {}
  const Zip& zip_;
  std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file_;
};

// The rest of an array's file, whose size in the archive is `size`. A file that is larger than the
// array is not decompressed.
Status read_rest(const Entry& entry, uint64_t size, const NpyHead& head,
                 std::vector<std::byte>& bytes) {
  if (!head.bytes || head.data_at + static_cast<uint64_t>(*head.bytes) != size) {
    return invalid_input("not an NPY array: " + std::to_string(size - head.data_at) +
                         " bytes follow its header, not " +
                         (head.bytes ? std::to_string(*head.bytes) : "so many") +
                         " as its shape says");
  }
  // One more than claimed, so that a longer entry is noticed.
  MANTISSA_RETURN_IF_ERROR(entry.read_to(size + 1, bytes));
  if (bytes.size() == size) return {};
  return invalid_input("it has not the size that the archive says");
}

// Reads the entry at `index`, or notes it among the others. `bytes_left`: the part of the limit
// that is left for it.
Result<std::optional<NpyArray>> read_array(const Zip& zip, zip_t* archive, zip_uint64_t index,
                                           int64_t& bytes_left, std::vector<OtherArray>* others) {
  zip_stat_t stat;
  if (zip.stat(archive, index, 0, &stat) != 0) {
    return invalid_input("entry " + std::to_string(index) + " of the archive is damaged");
  }
  const zip_uint64_t wanted = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD;
  if ((stat.valid & wanted) != wanted) {
    return invalid_input("entry " + std::to_string(index) + " of the archive is damaged");
  }
  const std::string_view name = stat.name;
  const auto wrong = [&](const std::string& what) {
    return invalid_input("entry '" + printable(name) + "': " + what);
  };
  if (!name.ends_with(kSuffix)) return wrong("is no array: its name does not end with .npy");
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
    return wrong("is compressed by method " + std::to_string(stat.comp_method) +
                 "; stored (0) and deflated (8) ones can be read");
  }
  const auto entry = Entry::open(zip, archive, index);
  if (!entry.ok()) return wrong(entry.error().message);
  std::vector<std::byte> bytes;
  const Status begin = entry->read_to(std::min<uint64_t>(stat.size, kMostNpyHeadBytes), bytes);
  if (!begin.ok()) return wrong(begin.error().message);
  const auto head = parse_npy_head(bytes);
  if (!head.ok()) return wrong(head.error().message);
  std::string array_name(name.substr(0, name.size() - kSuffix.size()));
  if (!head->type && others != nullptr) {
    others->push_back({std::move(array_name), head->type_code});
    return std::optional<NpyArray>();
  }
  if (stat.size > static_cast<zip_uint64_t>(bytes_left)) {
    return wrong("holds " + std::to_string(stat.size) + " bytes, more than the " +
                 format_bytes(bytes_left) + " left of the limit");
  }
  const Status rest = head->type ? read_rest(*entry, stat.size, *head, bytes) : Status();
  if (!rest.ok()) return wrong(rest.error().message);
  bytes_left -= std::ssize(bytes);
  auto array = parse_npy(bytes);
  if (!array.ok()) return wrong(array.error().message);
  array->name = std::move(array_name);
  return std::optional(std::move(*array));
}

Result<std::vector<NpyArray>> read_arrays(const Zip& zip, zip_t* archive, const NpzLimits& limits,
                                          std::vector<OtherArray>* others) {
  const zip_int64_t entries = zip.entries(archive, 0);
  if (entries < 0 || entries > limits.arrays) {
    return invalid_input("it has " + std::to_string(entries) + " arrays; " +
                         std::to_string(limits.arrays) + " are allowed");
  }
  std::vector<NpyArray> arrays;
  std::set<std::string_view> names;
  arrays.reserve(static_cast<size_t>(entries));  // so that names stay where they are
  int64_t bytes_left = limits.bytes;
  for (zip_int64_t i = 0; i < entries; ++i) {
    MANTISSA_ASSIGN(auto array,
                    read_array(zip, archive, static_cast<zip_uint64_t>(i), bytes_left, others));
    if (!array) continue;
    arrays.push_back(std::move(*array));
    if (!names.insert(arrays.back().name).second) {
      return invalid_input("it has two arrays named '" + printable(arrays.back().name) + "'");
    }
  }
  return arrays;
}

// An array's file as libzip takes it: the header, then the data, which are not copied.
Status add_array(const Zip& zip, zip_t* archive, const NpyView& view, const std::string& header) {
  const zip_buffer_fragment_t parts[] = {
      {reinterpret_cast<zip_uint8_t*>(const_cast<char*>(header.data())), header.size()},
      {reinterpret_cast<zip_uint8_t*>(const_cast<std::byte*>(view.data.data())), view.data.size()}};
  Source source(zip.fragments(parts, view.data.empty() ? 1 : 2, 0, nullptr), zip.free);
  const std::string name = view.name + std::string(kSuffix);
  const zip_int64_t index =
      source == nullptr ? -1 : zip.add(archive, name.c_str(), source.get(), ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    return invalid_input("the array '" + printable(view.name) +
                         "' cannot be added: " + printable(zip.archive_error(archive)));
  }
  source.release();  // the archive's now
  const auto at = static_cast<zip_uint64_t>(index);
  if (zip.set_compression(archive, at, ZIP_CM_STORE, 0) != 0 ||
      zip.set_time(archive, at, 0, kFirstDosDate, 0) != 0) {
    return failed(printable(zip.archive_error(archive)));
  }
  return {};
}

// All that a source that was written to holds.
Result<std::vector<std::byte>> content(const Zip& zip, zip_source_t* source) {
  zip_stat_t stat;
  if (zip.source_stat(source, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0 ||
      zip.source_open(source) != 0) {
    return failed("no memory for an archive");
  }
  std::vector<std::byte> bytes(stat.size);
  size_t done = 0;
  while (done < bytes.size()) {
    const zip_int64_t n = zip.source_read(source, bytes.data() + done, bytes.size() - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  zip.source_close(source);
  if (done != bytes.size()) return failed("an archive in memory could not be read");
  return bytes;
}

Status check_names(std::span<const NpyView> arrays) {
  if (arrays.empty()) return invalid_input("an NPZ file needs an array");
  std::set<std::string_view> names;
  for (const NpyView& view : arrays) {
    if (view.name.empty() || view.name.find('\0') != std::string::npos) {
      return invalid_input("an array of an NPZ file needs a name, without zero bytes");
    }
    if (!names.insert(view.name).second) {
      return invalid_input("two arrays are named '" + printable(view.name) + "'");
    }
  }
  return {};
}

Result<std::vector<std::byte>> archive_bytes(const Zip& zip, std::span<const NpyView> arrays) {
  zip_error_t error;
  zip.error_init(&error, 0);
  const Source whole(zip.buffer(nullptr, 0, 0, &error), zip.free);
  if (whole == nullptr) return failed("no memory for an archive");
  zip.keep(whole.get());  // the archive frees one reference, `whole` the other
  Archive archive(zip.open_from_source(whole.get(), ZIP_CREATE | ZIP_TRUNCATE, &error),
                  zip.discard);
  if (archive == nullptr) {
    zip.free(whole.get());
    return failed(printable(zip.error_text(&error)));
  }
  std::vector<std::string> headers;
  for (const NpyView& view : arrays) {
    MANTISSA_ASSIGN(std::string header, npy_header(view));
    headers.push_back(std::move(header));
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    MANTISSA_RETURN_IF_ERROR(add_array(zip, archive.get(), arrays[i], headers[i]));
  }
  if (zip.close(archive.get()) != 0) return failed(printable(zip.archive_error(archive.get())));
  archive.release();
  return content(zip, whole.get());
}

}  // namespace

Result<std::vector<NpyArray>> read_npz(const std::filesystem::path& path, const NpzLimits& limits,
                                       std::vector<OtherArray>* others) {
  MANTISSA_ASSIGN(const Zip* zip, load_zip());
  // The fault of a path that is missing or is no file. libzip might block on it.
  MANTISSA_ASSIGN(const InputFile file, InputFile::open(path));
  int code = 0;
  const Archive archive(zip->open(path.c_str(), ZIP_RDONLY, &code), zip->discard);
  if (archive == nullptr) {
    zip_error_t error;
    zip->error_init(&error, code);
    const std::string text = printable(zip->error_text(&error));
    zip->error_end(&error);
    return invalid_input("'" + path.string() + "': not an NPZ file: " + text);
  }
  auto arrays = read_arrays(*zip, archive.get(), limits, others);
  if (arrays.ok()) return arrays;
  return make_error(arrays.error().code, "'" + path.string() + "': " + arrays.error().message);
}

Status write_npz(const std::filesystem::path& path, std::span<const NpyView> arrays) {
  MANTISSA_ASSIGN(const Zip* zip, load_zip());
  MANTISSA_RETURN_IF_ERROR(check_names(arrays));
  MANTISSA_ASSIGN(const std::vector<std::byte> bytes, archive_bytes(*zip, arrays));
  const std::span<const std::byte> pieces[] = {bytes};
  return write_file_atomically(path, pieces);
}

}  // namespace mantissa
