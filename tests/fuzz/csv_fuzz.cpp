// CSV files as tables: a text is refused in one line, or its columns are printed and read again,
// and all its rows become numbers.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "data/datasets/dataset.h"

namespace mantissa {
namespace {

void check(bool holds, const char* what, const std::string& text) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, text.c_str());
  std::abort();
}

// The file that each input is written to: rows are read from files.
const std::filesystem::path& file() {
  static const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                            ("mantissa-fuzz-" + std::to_string(getpid()) + ".csv");
  return path;
}

void check_refusal(const std::string& message) {
  check(!message.empty() && message.size() < 3000 &&
            std::find(message.begin(), message.end(), '\n') == message.end(),
        "not one line", message);
}

}  // namespace
}  // namespace mantissa

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mantissa;
  std::ofstream(file(), std::ios::binary).write(reinterpret_cast<const char*>(data), size);
  const auto loaded = load_dataset(file(), true, true);
  if (!loaded.ok()) {
    check_refusal(loaded.error().message);
    return 0;
  }
  const TableSchema& schema = *loaded->info.table;
  const auto again = parse_table_schema(to_json(schema));
  check(again.ok() && to_json(*again) == to_json(schema), "prints other columns", to_json(schema));
  for (const ExampleSet* set : {&loaded->train, &loaded->test}) {
    const auto numbers = std::ssize(set->numbers<int16_t>(kNumberTensor));
    check(numbers == set->count * schema.features(), "other numbers", std::to_string(numbers));
    for (const Label label : set->labels()) {
      check(label < loaded->info.target.classes, "no class", std::to_string(label));
    }
  }
  return 0;
}
