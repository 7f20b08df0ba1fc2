#include "formats/csv.h"

#include <gtest/gtest.h>

#include <sstream>

namespace mantissa {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// All rows of a text, or the error as the only field.
Rows parse(const std::string& text, const CsvLimits& limits = {}) {
  std::istringstream file(text);
  const std::string name = "t.csv";
  CsvReader reader(file, name, limits);
  Rows rows;
  while (true) {
    const auto row = reader.next();
    if (!row.ok()) return {{row.error().message}};
    if (row->empty()) return rows;
    rows.emplace_back(row->begin(), row->end());
  }
}

TEST(Csv, SeparatorsLineEndsAndByteOrderMark) {
  const Rows wanted = {{"a", "b"}, {"1", "2,5"}, {"", "x y"}};
  EXPECT_EQ(parse("a;b\n1;2,5\n;x y\n"), wanted);
  EXPECT_EQ(parse("\xef\xbb\xbf"
                  "a;b\r\n1;2,5\r\n\r\n;x y"),
            wanted);
  EXPECT_EQ(parse("\n\na\tb\r1\t2,5\r\tx y\r"), wanted);
  EXPECT_EQ(parse("a,b\n1,\"2,5\"\n,x y\n"), wanted);
  EXPECT_EQ(parse(""), Rows());
  EXPECT_EQ(parse("\n\r\n"), Rows());
  EXPECT_EQ(parse("one\ntwo"), (Rows{{"one"}, {"two"}}));
}

// As Excel writes it.
TEST(Csv, ALineMayNameTheSeparator) {
  const Rows wanted = {{"a,b", "c"}, {"1", "2,5"}};
  EXPECT_EQ(parse("sep=;\na,b;c\n1;2,5\n"), wanted);
  EXPECT_EQ(parse("\xef\xbb\xbf\"sep=;\"\r\na,b;c\r\n1;2,5\r\n"), wanted);
  EXPECT_EQ(parse("sep=|\na|b\n"), (Rows{{"a", "b"}}));
  EXPECT_EQ(parse("sep=,x\n"), (Rows{{"sep=", "x"}}));
  EXPECT_EQ(parse("sep=;\na;b\n\"1\n"),
            (Rows{{"t.csv, line 3: the quote that begins here does not end"}}));
}

TEST(Csv, Quotes) {
  EXPECT_EQ(parse("a,b\n\"x\"\"y\",\"1\n2\"\n"), (Rows{{"a", "b"}, {"x\"y", "1\n2"}}));
  EXPECT_EQ(parse("a,b\n5\" wide,x\"\n"), (Rows{{"a", "b"}, {"5\" wide", "x\""}}));
  // Separators within quotes do not decide which separator the file has.
  EXPECT_EQ(parse("\"a,b,c\";d\n1;2\n"), (Rows{{"a,b,c", "d"}, {"1", "2"}}));
  EXPECT_EQ(parse("a,\"\"\n"), (Rows{{"a", ""}}));
}

TEST(Csv, ErrorsNameTheLine) {
  EXPECT_EQ(parse("a,b\n\n1,\"2\n3\n"),
            (Rows{{"t.csv, line 3: the quote that begins here does not end"}}));
  EXPECT_EQ(parse("a,b\n\"1\n\"x,2\n"),
            (Rows{{"t.csv, line 3: text follows the quote that ends a field"}}));
  EXPECT_EQ(parse(std::string("a,b\n1,\0\n", 8)),
            (Rows{{"t.csv, line 2: has a byte 0: this is no text"}}));
  EXPECT_EQ(parse("\xff\xfe"
                  "a"),
            (Rows{{"t.csv, line 1: is UTF-16; save it as UTF-8"}}));
  EXPECT_EQ(parse("a,b\n" + std::string(100, 'x'), {.row_bytes = 64}),
            (Rows{{"t.csv, line 2: is longer than 64 B"}}));
  EXPECT_EQ(parse("a,b\n\"" + std::string(100, 'x'), {.row_bytes = 64}),
            (Rows{{"t.csv, line 2: the field in quotes that begins here is longer than 64 B; is a "
                   "quote missing?"}}));
  EXPECT_EQ(parse("a,b\n,,,\n", {.fields = 3}), (Rows{{"t.csv, line 2: has more than 3 fields"}}));
}

// Fields lie across the blocks that the file is read in.
TEST(Csv, LargeFiles) {
  std::string text = "number,text\n";
  for (int i = 0; i < 100'000; ++i)
    text += std::to_string(i) + ",\"x\"\"" + std::to_string(i) + "\"\n";
  const Rows rows = parse(text);
  ASSERT_EQ(rows.size(), 100'001u);
  for (int i = 0; i < 100'000; i += 977) {
    EXPECT_EQ(rows[i + 1],
              (std::vector<std::string>{std::to_string(i), "x\"" + std::to_string(i)}));
  }
}

}  // namespace
}  // namespace mantissa
