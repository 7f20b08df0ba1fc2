// What is guessed of tables: names, missing values, how numbers are written. And that it is said.
#include <gtest/gtest.h>

#include <cmath>

#include "base/test_folder.h"
#include "data/datasets/dataset.h"
#include "data/readers/header_guess.h"
#include "data/tables/number_style.h"
#include "data/tables/table_columns.h"
#include "data/tables/table_rows.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

struct Loaded {
  Dataset data;
  std::string error, notes;
  const TableSchema& table() const { return *data.info.table; }
};

class Guesses : public testing::Test {
 protected:
  Loaded load(const std::string& text, const TableChoices& choices = {}) {
    put_file(folder_ / "t.csv", text);
    DataOptions options;
    options.table = choices;
    auto data = load_dataset(folder_ / "t.csv", true, true, options);
    Loaded loaded;
    if (!data.ok()) {
      loaded.error = data.error().message;
      return loaded;
    }
    for (const std::string& note : data->info.notes) loaded.notes += note + "\n";
    loaded.data = std::move(*data);
    return loaded;
  }
  // A table of 300 rows: numbers around 2 * (row % 3), and that class.
  static std::string rows(const std::string& separator = ",", const std::string& end = "\n") {
    std::string text;
    for (int i = 0; i < 300; ++i) {
      for (int j = 0; j < 4; ++j) {
        text += std::to_string(2 * (i % 3) + 0.1003 * ((i * 7 + j * 3) % 11)) + separator;
      }
      text += std::string(1, "abc"[i % 3]) + end;
    }
    return text;
  }
  static std::vector<std::string> names(const TableSchema& schema) {
    std::vector<std::string> names;
    for (const TableColumn& column : schema.columns) names.push_back(column.name);
    return names;
  }

  TestFolder folder_;
};

TEST_F(Guesses, NamesThatAreNumbers) {
  const std::string default_names = rows();
  const Loaded found = load("0,1,2,3,label\n" + default_names);
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(found.data.info.target.names, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(names(found.table()), (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(found.data.train.count + found.data.test.count, 300);
  EXPECT_NE(found.notes.find("guessed: line 1 (0, 1, 2, 3, label) is taken for the columns' names; "
                             "--header no"),
            std::string::npos)
      << found.notes;
  std::string indexed = ",0,1,2,3,label\n";
  int row = 0;
  for (size_t at = 0; at < default_names.size();) {
    const size_t end = default_names.find('\n', at) + 1;
    indexed += std::to_string(row++) + "," + default_names.substr(at, end - at);
    at = end;
  }
  EXPECT_EQ(names(load(indexed).table()), (std::vector<std::string>{"0", "1", "2", "3"}));
  TableChoices told;
  told.format.has_header = false;
  const Loaded row_too = load("0,1,2,3,label\n" + default_names, told);
  EXPECT_EQ(row_too.data.train.count + row_too.data.test.count, 301);
  EXPECT_EQ(row_too.notes.find("guessed"), std::string::npos);
}

RowTexts split(const std::string& line) {
  RowTexts fields(1);
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

bool has_names(const std::vector<std::string>& lines) {
  std::vector<RowTexts> rows;
  for (size_t i = 1; i < lines.size(); ++i) rows.push_back(split(lines[i]));
  return guess_header(split(lines[0]), rows).has_names;
}

TEST(Header, IsWhatTheRowsBelowSay) {
  EXPECT_TRUE(has_names({"a,b,y", "1,2,x", "3,4,z"}));
  EXPECT_TRUE(has_names({"country,1990,1991,1992", "DE,5,6,7", "FR,7,8,9", "IT,1,5,2"}));
  EXPECT_TRUE(has_names({"country,1990,2000", "DE,5.5,6", "FR,7,8.1", "IT,1,5"}));
  EXPECT_TRUE(has_names({"1990,1991,1992,1993", "5.5,6.1,7,1", "7,8,9.5,3"}));
  EXPECT_TRUE(has_names({"0,1,2,3", "5.5,6.1,7,1", "7,8,9.5,3"}));
  EXPECT_TRUE(has_names({",0,1", "0,5.5,6.1", "1,7,8"}));
  EXPECT_TRUE(has_names({"0,1", "red,cat", "blue,dog"}));
  EXPECT_TRUE(has_names({"400.5,401,401.5,fat", "0.5,0.1,0.2,22.5", "0.7,0.4,0.5,40.1"}));
  EXPECT_TRUE(has_names({"0,1,target", "5,6,0", "7,8,1", "9,9,0"}));
  EXPECT_TRUE(has_names({"text,label", "so good,pos", "so bad,neg"}));
  EXPECT_TRUE(has_names({"a,b"}));
  EXPECT_FALSE(has_names({"5.1,3.5,setosa", "4.9,3.0,setosa", "6.3,3.3,other"}));
  EXPECT_FALSE(has_names({"5.1,3.5,virginica", "4.9,3.0,setosa", "6.3,3.3,setosa"}));
  EXPECT_FALSE(has_names({"1,2.5,a", "2,3.5,b", "5,1,b", "1,2,a"}));
  EXPECT_FALSE(has_names({"red,cat", "blue,dog", "red,dog", "blue,cat"}));
  EXPECT_FALSE(has_names({"5.1,3.5", "4.9,3.0", "6.3,3.3"}));
  EXPECT_FALSE(has_names({"1,2,3", "4,5,6", "7,8,9"}));
  EXPECT_FALSE(has_names({"18.0,8,307.0,chevrolet", "15.0,8,350.0,buick", "18.0,4,318.0,ford"}));
  EXPECT_FALSE(has_names({"1,65,3,John", "2,70,1,Mary", "3,20,2,Ann"}));
  EXPECT_FALSE(has_names({"1,2"}));
}

TEST_F(Guesses, FilesWithoutNamesAreSaidToBe) {
  const Loaded found = load(rows());
  EXPECT_EQ(found.table().target.name, "5");
  EXPECT_NE(found.notes.find("is taken for a row, and columns are called 1, 2, ...; --header yes"),
            std::string::npos);
  EXPECT_EQ(load("a,b,c,d,label\n" + rows()).notes.find("guessed"), std::string::npos);
}

TEST_F(Guesses, MissingValuesAreCountedAndNamed) {
  for (const std::string marker : {"#N/A", "<NA>", "NaT", "#DIV/0!", "\\N", "-", ".", "n.a."}) {
    std::string text = "a,b,c,d,label\n";
    const std::string lines = rows();
    int64_t lacking = 0, row = 0;
    for (size_t at = 0; at < lines.size(); ++row) {
      const size_t end = lines.find('\n', at) + 1;
      std::string line = lines.substr(at, end - at);
      if (row % 20 == 0) {
        line = marker + line.substr(line.find(','));
        lacking += is_of_part(row, RowPart::kTrain);
      }
      text += line;
      at = end;
    }
    const Loaded found = load(text);
    ASSERT_EQ(found.error, "") << marker;
    ASSERT_EQ(found.table().columns.size(), 4u) << marker << found.notes;
    EXPECT_EQ(found.table().columns[0].missing, lacking);
    const std::string count = std::to_string(lacking);
    EXPECT_NE(found.notes.find("column 'a' lacks " + count + " values, of which " + count +
                               " are '" + marker + "': they are taken for the mean"),
              std::string::npos)
        << found.notes;
  }
}

TEST_F(Guesses, TextsAreMissingWhereTheUserSaysSo) {
  std::string text = "a,b,label\n";
  for (int i = 0; i < 200; ++i) {
    text += (i % 10 == 3   ? "-999"
             : i % 10 == 4 ? "sick"
                           : std::to_string(i)) +
            "," + std::to_string(i * 0.37) + "," + "ab"[i % 2] + "\n";
  }
  TableChoices choices;
  choices.format.missing = parse_missing("-999.0,sick");
  const Loaded found = load(text, choices);
  ASSERT_EQ(found.error, "");
  EXPECT_GT(found.table().columns[0].missing, 25);
  const auto again = parse_table_schema(to_json(found.table()));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->format.missing, choices.format.missing);
}

TEST_F(Guesses, InTargetsOnlyEmptyFieldsAreMissing) {
  std::string lines = "a,severity\n", numbers = "a,y\n";
  for (int i = 0; i < 90; ++i) {
    const char* const kinds[] = {"none", "mild", "NA"};
    lines += std::to_string(i * 0.3) + "," + kinds[i % 3] + "\n";
    numbers += std::to_string(i * 0.3) + "," + (i == 7 ? "NA" : std::to_string(i * 1.1)) + "\n";
  }
  EXPECT_EQ(load(lines).data.info.target.names, (std::vector<std::string>{"NA", "mild", "none"}));
  EXPECT_NE(load(numbers).error.find("line 9: has no value of the target 'y' but 'NA'"),
            std::string::npos);
  TableChoices choices;
  choices.format.missing = {"NA"};
  EXPECT_NE(load(lines, choices).error.find("has no value of the target"), std::string::npos);
}

TEST_F(Guesses, AStrayTextIsAnErrorInAllRows) {
  for (const int stray : {5, 8}) {  // a training and a test row, or the other way round
    std::string text = "a,b,label\n";
    for (int i = 0; i < 100; ++i) {
      text += std::to_string(i * 0.37) + "," + (i == stray ? "12O" : std::to_string(i * 1.7)) +
              "," + "ab"[i % 2] + "\n";
    }
    EXPECT_NE(load(text).error.find("line " + std::to_string(stray + 2) +
                                    ": column 'b' is of numbers, and has '12O'; correct it, or "
                                    "train with --missing '12O'"),
              std::string::npos)
        << load(text).error;
    TableChoices choices;
    choices.format.missing = {"12O"};
    EXPECT_EQ(load(text, choices).error, "");
  }
}

TEST_F(Guesses, MixedColumnsAreSaidToBeCategories) {
  std::string text = "code,b,label\n";
  for (int i = 0; i < 100; ++i) {
    text += (i % 20 == 3 ? "other" : std::to_string(i % 4)) + "," + std::to_string(i * 1.7) + "," +
            "ab"[i % 2] + "\n";
  }
  const Loaded found = load(text);
  EXPECT_EQ(found.table().columns[0].categories.size(), 5u);
  EXPECT_NE(found.notes.find("column 'code' is taken for categories: "), std::string::npos);
}

TEST_F(Guesses, CategoriesThatLookLikeNumbersAreSaid) {
  std::string text = "share,when,size,label\n";
  for (int i = 0; i < 100; ++i) {
    text += std::to_string(i % 7) + ".5%,2024-01-" + std::to_string(10 + i % 9) + ",s" +
            std::to_string(i % 3) + "," + "ab"[i % 2] + "\n";
  }
  const std::string notes = load(text).notes;
  EXPECT_NE(notes.find("column 'share' is taken for 7 categories, not for numbers ('0.5%', "),
            std::string::npos)
      << notes;
  EXPECT_NE(notes.find("column 'when' is taken for 9 categories, not for numbers"),
            std::string::npos)
      << notes;
  EXPECT_EQ(notes.find("column 'size'"), std::string::npos) << notes;
}

TEST(NumberStyles, OfTexts) {
  const auto value = [](const char* text, NumberStyle style) {
    const auto number = number_in(text, style);
    return number ? number->value : NAN;
  };
  EXPECT_EQ(value("1,234,567.5", {'.', ','}), 1234567.5);
  EXPECT_EQ(value("-1.234.567,5", {',', '.'}), -1234567.5);
  EXPECT_EQ(value("1 234,5", {',', ' '}), 1234.5);
  EXPECT_EQ(value("1\xC2\xA0"
                  "234",
                  {',', ' '}),
            1234);
  EXPECT_EQ(value("1\xE2\x80\xAF"
                  "234",
                  {'.', ' '}),
            1234);
  EXPECT_EQ(value("1'234.5", {'.', '\''}), 1234.5);
  EXPECT_EQ(value("1\xE2\x80\x99"
                  "234",
                  {'.', '\''}),
            1234);
  EXPECT_EQ(value("\xE2\x88\x92"
                  "5",
                  {}),
            -5);
  EXPECT_EQ(value("1,5", {',', '\0'}), 1.5);
  for (const char* text :
       {"1,23", "1234,567", ",123", "1,234,5", "0,123", "1,,234", "a,123", ","}) {
    EXPECT_TRUE(std::isnan(value(text, {'.', ','}))) << text;
  }
  EXPECT_EQ(clear_number("2,717.49")->value, 2717.49);
  EXPECT_EQ(clear_number("5,1")->value, 5.1);
  EXPECT_FALSE(clear_number("1.642"));
  EXPECT_FALSE(clear_number("12.02.2024"));
}

TEST_F(Guesses, ThousandsAreNumbersWhereAllFit) {
  std::string text = "a,price\n", german = "a;price;size\n";
  for (int i = 0; i < 200; ++i) {
    const int price = 842 + 97 * i;
    const std::string hundreds = std::to_string(1000 + price % 1000).substr(1);
    const std::string grouped =
        price < 1000 ? std::to_string(price) : std::to_string(price / 1000) + "," + hundreds;
    text += std::to_string(0.1 * i) + ",\"" + grouped + ".25\"\n";
    std::string points = grouped;
    for (char& c : points) c = c == ',' ? '.' : c;
    german += std::to_string(i % 10) + ",5;" + points + ";" + std::to_string(i % 7) + ",25\n";
  }
  const Loaded english = load(text);
  ASSERT_EQ(english.error, "");
  EXPECT_TRUE(english.data.info.target.is_number());
  EXPECT_EQ(english.table().target.style, (NumberStyle{'.', ','}));
  TableChoices choices;
  choices.target = "size";
  const Loaded found = load(german, choices);
  ASSERT_EQ(found.error, "");
  EXPECT_EQ(found.table().columns[1].style, (NumberStyle{',', '.'}));
  EXPECT_GT(found.table().columns[1].mean, 1000);
  EXPECT_EQ(to_json(*parse_table_schema(to_json(found.table()))), to_json(found.table()));
}

// 1.642 beside 842: a thousand, or a decimal. The user is told, and decides.
TEST_F(Guesses, AmbiguousNumbersAreNamed) {
  std::string text = "a,b\n";
  for (int i = 0; i < 100; ++i) {
    text += std::string(i % 2 ? "1.642" : "842") + "," + std::to_string(i) + "x\n";
  }
  TableChoices choices;
  choices.task = TableTask::kRegression;
  choices.target = "a";
  choices.ignore = "";
  std::string two = "a,b,c\n";
  for (int i = 0; i < 100; ++i) {
    two += std::string(i % 2 ? "1.642" : "842") + "," + std::to_string(i % 5) + "," +
           std::to_string(i % 7) + "\n";
  }
  const Loaded found = load(two, choices);
  ASSERT_EQ(found.error, "");
  EXPECT_NE(found.notes.find("guessed: column 'a': '1.642' is read as 1642"), std::string::npos)
      << found.notes;
  EXPECT_NE(found.notes.find("--decimal point reads 1.642"), std::string::npos);
  EXPECT_GT(found.table().target.mean, 1000);
  choices.decimal = '.';
  const Loaded told = load(two, choices);
  EXPECT_EQ(told.notes.find("guessed"), std::string::npos);
  EXPECT_LT(told.table().target.mean, 500);
}

TEST_F(Guesses, SeparatorLineAndTrailingCommas) {
  const Loaded line = load("sep=;\na;b;c;d;label\n" + rows(";"));
  ASSERT_EQ(line.error, "");
  EXPECT_EQ(line.table().target.name, "label");
  const Loaded trailing = load("a,b,c,d,label,\n" + rows(",", ",\n"));
  ASSERT_EQ(trailing.error, "");
  EXPECT_EQ(trailing.data.info.target.names.size(), 3u);
  EXPECT_EQ(trailing.table().columns.size(), 4u);
  const Loaded unusual = load("a,b,c,d,kind,\n" + rows(",", ",\n"));
  EXPECT_EQ(unusual.table().target.name, "kind");
}

// 0.1 + 0.2 beside 0.3: the difference is rounding, and must not be blown up.
TEST_F(Guesses, RoundingIsNoDeviation) {
  std::string text = "a,far,label\n";
  for (int i = 0; i < 300; ++i) {
    text += std::string(i % 3 == 0 ? "0.30000000000000004" : "0.3") + "," +
            std::to_string(1'000'000'000'000LL + i % 3) + "," + "ab"[i % 2] + "\n";
  }
  const Loaded found = load(text);
  ASSERT_EQ(found.error, "");
  const auto& numbers = found.data.train.numbers<int16_t>(kNumberTensor);
  for (size_t i = 0; i < numbers.size(); i += 2) {
    EXPECT_EQ(numbers[i], 0);
  }
  EXPECT_NE(found.notes.find("column 'a' is the same in all training rows but for rounding"),
            std::string::npos);
  // Far from zero, and exact: three values with deviation sqrt(2/3).
  const TableColumn& far = found.table().columns[1];
  EXPECT_NEAR(far.mean, 1e12 + 1, 0.03);
  EXPECT_NEAR(far.deviation, std::sqrt(2.0 / 3), 0.03);
}

TEST_F(Guesses, SumsAreExactFarFromZero) {
  std::string text = "x,label\n";
  double squares = 0, sum = 0;
  int64_t count = 0;
  for (int i = 0; i < 5000; ++i) {
    const double small = (i * 7919 % 1001) * 0x1p-10;
    text += std::to_string(100'000'000) + "." + std::to_string(small).substr(2) + ",";
    text += "ab"[i % 2] + std::string("\n");
    if (!is_of_part(i, RowPart::kTrain)) continue;
    const double read = std::stod("0." + std::to_string(small).substr(2));
    sum += read;
    squares += read * read;
    ++count;
  }
  const double mean = sum / static_cast<double>(count);
  const double deviation = std::sqrt(squares / static_cast<double>(count) - mean * mean);
  const TableColumn column = load(text).table().columns[0];
  EXPECT_NEAR(column.mean - 1e8, mean, 1e-7);
  EXPECT_NEAR(column.deviation, deviation, 1e-8);
}

TEST_F(Guesses, WhatIsCutAndWhatCountsRowsIsSaid) {
  std::string text = "id,size,label\n";
  for (int i = 0; i < 300; ++i) {
    text += std::to_string(1000 + i) + "," + (i % 100 == 7 ? "1e6" : std::to_string(i % 10)) + "," +
            "ab"[i % 2] + "\n";
  }
  const Loaded found = load(text);
  EXPECT_NE(found.notes.find("column 'id' has whole numbers that grow from row to row"),
            std::string::npos)
      << found.notes;
  EXPECT_NE(found.notes.find("column 'size': "), std::string::npos) << found.notes;
  EXPECT_NE(found.notes.find("numbers lie 8 deviations or more from the mean"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
