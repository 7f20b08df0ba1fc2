#include "base/files/line_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/test_folder.h"

namespace mantissa {
namespace {

struct Lines {
  std::vector<std::string> texts;
  int64_t bytes = 0;
};

Lines read_lines(const std::filesystem::path& path) {
  Lines lines;
  auto reader = LineReader::open(path);
  EXPECT_TRUE(reader.ok());
  while (true) {
    const auto line = reader->next();
    EXPECT_TRUE(line.ok());
    if (!*line) break;
    lines.texts.emplace_back(**line);
  }
  EXPECT_EQ(reader->lines(), static_cast<int64_t>(lines.texts.size()));
  lines.bytes = reader->bytes();
  return lines;
}

TEST(LineReader, ReadsWholeLines) {
  const TestFolder folder;
  // Longer and shorter than the block that is read at once.
  const std::vector<std::string> texts = {
      "", "one", std::string(200'000, 'x'), "", std::string(65'535, 'y'), std::string(1, '\0')};
  std::string text;
  for (const std::string& line : texts) text += line + "\n";
  put_file(folder / "file", text);
  EXPECT_EQ(read_lines(folder / "file").texts, texts);

  put_file(folder / "file", text + "unfinished");
  const Lines lines = read_lines(folder / "file");
  EXPECT_EQ(lines.texts, texts);
  EXPECT_EQ(lines.bytes, static_cast<int64_t>(text.size()));

  put_file(folder / "file", std::string());
  EXPECT_TRUE(read_lines(folder / "file").texts.empty());
  EXPECT_FALSE(LineReader::open(folder / "nothing").ok());
}

// A file without an end of line would fill the memory.
TEST(LineReader, RefusesALineThatIsTooLong) {
  const TestFolder folder;
  put_file(folder / "file", std::string("short\n"));
  std::filesystem::resize_file(folder / "file", int64_t{1} << 40);  // of zeros, on no disk
  auto reader = LineReader::open(folder / "file");
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(reader->next().ok());
  const auto line = reader->next();
  ASSERT_FALSE(line.ok());
  EXPECT_NE(line.error().message.find("file', line 2: is longer than 64.0 MiB"), std::string::npos)
      << line.error().message;
}

}  // namespace
}  // namespace mantissa
