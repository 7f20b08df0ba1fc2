// Tables from CSV files: columns, rows as numbers, splits.
#include <gtest/gtest.h>

#include <cmath>

#include "base/test_folder.h"
#include "data/batches/examples.h"
#include "data/datasets/dataset.h"
#include "data/datasets/readers.h"
#include "data/tables/table_rows.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

constexpr int16_t kOne = 1 << -kFeatureExponent;

DataOptions chosen(const std::string& target, TableTask task = TableTask::kByTarget,
                   const std::string& ignore = "") {
  DataOptions options;
  options.table = {target, ignore, task};
  return options;
}

// A folder with train.csv and test.csv.
class Table : public testing::Test {
 protected:
  void put(const std::string& train, const std::string& test) {
    put_file(folder_ / "train.csv", train);
    put_file(folder_ / "test.csv", test);
  }
  Dataset load(const DataOptions& options = {}) {
    auto data = load_dataset(folder_.path(), true, true, options);
    EXPECT_TRUE(data.ok()) << data.error().message;
    return data.ok() ? std::move(*data) : Dataset();
  }
  std::string refusal(const DataOptions& options = {}) {
    const auto data = load_dataset(folder_.path(), true, true, options);
    if (data.ok()) return "accepted";
    std::string text = data.error().message;
    for (size_t at; (at = text.find(folder_.path().string() + "/")) != std::string::npos;) {
      text.erase(at, folder_.path().string().size() + 1);
    }
    return text;
  }

  TestFolder folder_;
};

TEST(TableField, Kinds) {
  EXPECT_EQ(read_field(" 12 ").kind, FieldKind::kWhole);
  EXPECT_EQ(read_field("+7").number, 7);
  EXPECT_EQ(read_field("-1.5e3").number, -1500);
  EXPECT_EQ(read_field("-1.5e3").kind, FieldKind::kReal);
  EXPECT_EQ(read_field("1,5").kind, FieldKind::kText);
  EXPECT_EQ(read_field("1e-999").number, 0);
  EXPECT_TRUE(std::isinf(read_field("1e999").number));
  EXPECT_TRUE(std::isinf(read_field("-inf").number));
  for (const char* text : {"", " ", "\t"}) {
    EXPECT_EQ(read_field(text).kind, FieldKind::kMissing) << text;
  }
  for (const char* text :
       {"?",   "NA",      "n/a",    "NaN",   "null",     "None",        "#N/A",    "<NA>",
        "NaT", "#DIV/0!", "\\N",    "-",     ".",        "n.a.",        "#VALUE!", "1.#IND",
        "--",  "-nan",    "(null)", "#REF!", "#N/A N/A", "\xE2\x80\x93"}) {
    EXPECT_EQ(read_field(text).kind, FieldKind::kMarker) << text;
  }
  for (const char* text :
       {"+", "5 m", "0x10", "nano", "1-2", "abc", "infx", "n", "#1", "N.A.S.A."}) {
    EXPECT_EQ(read_field(text).kind, FieldKind::kText) << text;
  }
  EXPECT_EQ(category_of(read_field("007")), "7");
  EXPECT_EQ(category_of(read_field("7.0")), "7");
  EXPECT_EQ(category_of(read_field("7.5")), "7.5");
  EXPECT_EQ(category_of(read_field("M\xfcller")), "Müller");
  EXPECT_EQ(category_of(read_field("two\nlines")), "two lines");
  EXPECT_EQ(category_of(read_field("Müller")), "Müller");
}

TEST(TableField, OfAColumnWithAStyle) {
  EXPECT_EQ(field_in(read_field("1.642"), {',', '.'}).number, 1642);
  EXPECT_EQ(field_in(read_field("1.642"), {}).number, 1.642);
  EXPECT_EQ(field_in(read_field("2,717.49"), {}).number, 2717.49);
  EXPECT_EQ(field_in(read_field("5.1"), {',', '\0'}).number, 5.1);
  EXPECT_EQ(field_in(read_field("1,642"), {}).kind, FieldKind::kText);  // 1642 or 1.642
}

// Mean 2 and deviation 1, by hand; a text column of two categories.
TEST_F(Table, RowsBecomeNumbers) {
  put("size,colour,kind\n1,red,cat\n3,blue,dog\n1,blue,cat\n3,red,dog\n",
      "kind,extra,colour,size\ndog,9,red,2.5\ncat,9,green,\ncat,9,,-100\n");
  const Dataset data = load();
  ASSERT_TRUE(data.info.table);
  EXPECT_EQ(data.info.target.names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data.info.table->features(), 3);
  EXPECT_EQ(data.info.table->columns[0].mean, 2);
  EXPECT_EQ(data.info.table->columns[0].deviation, 1);
  EXPECT_EQ(data.info.table->columns[1].categories, (std::vector<std::string>{"blue", "red"}));
  EXPECT_EQ(data.train.numbers<int16_t>(kNumberTensor),
            (std::vector<int16_t>{-kOne, 0, kOne, kOne, kOne, 0, -kOne, kOne, 0, kOne, 0, kOne}));
  EXPECT_EQ(data.train.labels(), (std::vector<Label>{0, 1, 0, 1}));
  // Half a deviation; an unknown and a missing category, a missing number; one too far away.
  EXPECT_EQ(data.test.numbers<int16_t>(kNumberTensor),
            (std::vector<int16_t>{kOne / 2, 0, kOne, 0, 0, 0, -INT16_MAX, 0, 0}));
  EXPECT_EQ(data.test.labels(), (std::vector<Label>{1, 0, 0}));
}

// A unit in the last place is what rounding makes of one number.
TEST_F(Table, AColumnOfOneNumberButForRounding) {
  put("x,label\n20.1,a\n20.1,b\n20.100000000000005,a\n", "x,label\n20.1,a\n");
  const Dataset data = load();
  EXPECT_GE(data.info.table->columns[0].deviation, 1);
  EXPECT_EQ(data.train.numbers<int16_t>(kNumberTensor), (std::vector<int16_t>{0, 0, 0}));
}

TEST_F(Table, NumbersToPredict) {
  put("a,y\n1,10.5\n2,20.5\n3,30.5\n", "a,y\n2,20.5\n");
  const Dataset data = load();
  EXPECT_TRUE(data.info.target.is_number());
  EXPECT_EQ(data.info.target.classes, 0);
  EXPECT_EQ(data.info.table->target.mean, 20.5);
  EXPECT_TRUE(data.train.labels().empty());
  const double deviation = data.info.table->target.deviation;
  EXPECT_NEAR(deviation, std::sqrt(200.0 / 3), 1e-12);
  EXPECT_EQ(data.train.numbers<int16_t>(kTargetTensor)[0],
            std::lround(-10 / deviation * (1 << -kTargetExponent)));
  EXPECT_EQ(data.test.numbers<int16_t>(kTargetTensor), (std::vector<int16_t>{0}));
}

TEST_F(Table, TargetAndTask) {
  const std::string rows = "1,5,a\n2,5,a\n1,6,b\n2,6,b\n";
  put("class,n,t\n" + rows, "class,n,t\n" + rows);
  EXPECT_EQ(load().info.target.names, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(load(chosen("t")).info.target.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(load(chosen("n", TableTask::kRegression)).info.target.is_number());
  EXPECT_EQ(refusal(chosen("", TableTask::kByTarget, "n,t")),
            "no column is left but the target 'class'");
}

// Whole numbers in their order, not that of their texts.
TEST_F(Table, ClassesThatAreNumbers) {
  const std::string rows = "x,y\n1,10\n2,9\n1,10\n2,9\n3,-1\n4,-1\n";
  put(rows, rows);
  EXPECT_EQ(load().info.target.names, (std::vector<std::string>{"-1", "9", "10"}));
}

TEST_F(Table, WithoutNames) {
  put("1;2,5;a\n2;3,5;b\n1;2;a\n5;1;b\n", "1;2,5;b\n");
  const Dataset data = load();
  EXPECT_EQ(data.info.table->columns[1].name, "2");
  EXPECT_EQ(data.info.table->target.name, "3");
  EXPECT_EQ(data.train.count, 4);
}

TEST_F(Table, ColumnsThatAreLeftOut) {
  put(",name,x,empty,y\n0,ann,1,,a\n1,bob,2,,b\n2,cid,3,,a\n3,dan,4,,b\n",
      ",name,x,empty,y\n0,eve,1,,a\n");
  const Dataset data = load();
  ASSERT_EQ(data.info.table->columns.size(), 1u);
  EXPECT_EQ(data.info.table->columns[0].name, "x");
  EXPECT_EQ(data.info.notes.size(), 3u);
}

// One of each five rows, the same ones always.
TEST_F(Table, OneFileIsDivided) {
  std::string rows = "x,y\n";
  for (int i = 0; i < 1000; ++i) rows += std::to_string(i) + "," + (i % 2 ? "a" : "b") + "\n";
  put_file(folder_ / "one.csv", rows);
  for (const std::filesystem::path& path : {folder_.path(), folder_ / "one.csv"}) {
    const auto data = load_dataset(path, true, true);
    ASSERT_TRUE(data.ok()) << data.error().message;
    EXPECT_EQ(data->train.count, 800);
    EXPECT_EQ(data->test.count, 200);
  }
  std::vector<int64_t> places(5);
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_NE(is_of_part(i, RowPart::kTrain), is_of_part(i, RowPart::kTest));
    places[i % 5] += is_of_part(i, RowPart::kTest);
  }
  for (const int64_t count : places) EXPECT_GT(count, 20);
}

TEST_F(Table, ATestFileWithoutTargetIsNotRead) {
  std::string rows = "x,y\n";
  for (int i = 0; i < 10; ++i) rows += std::to_string(i) + "," + (i % 2 ? "a" : "b") + "\n";
  put(rows, "x\n1\n");
  const Dataset data = load();
  EXPECT_EQ(data.train.count, 8);
  EXPECT_EQ(data.test.count, 2);
}

TEST_F(Table, TheNetworksColumnsGoBeforeTheDatas) {
  put("x,y\n1,a\n3,b\n", "x,y\n2,b\n");
  DataOptions options;
  options.schema = TableSchema{.columns = {{.name = "x", .mean = 0, .deviation = 2}},
                               .target = {.name = "y", .categories = {"b", "a"}}};
  const Dataset data = load(options);
  EXPECT_EQ(data.test.numbers<int16_t>(kNumberTensor), (std::vector<int16_t>{kOne}));
  EXPECT_EQ(data.test.labels(), (std::vector<Label>{0}));
}

TEST_F(Table, Errors) {
  const std::string good = "x,y\n1,a\n2,b\n";
  put("x,y\n1,a\n2\n", good);
  EXPECT_EQ(refusal(), "'train.csv', line 3: has 1 fields, and the first row 2");
  put("x,x\n1,a\n", good);
  EXPECT_EQ(refusal(), "'train.csv', line 1: two columns are called 'x'");
  put("", good);
  EXPECT_EQ(refusal(), "'train.csv': is empty");
  put("x,y\n", good);
  EXPECT_EQ(refusal(), "'train.csv', line 1: there are no rows behind the names");
  put("x,y\n1,a\n2,\n", good);
  EXPECT_EQ(refusal(), "'train.csv', line 3: has no value of the target 'y'");
  put("x,y\n1,a\n2,a\n", good);
  EXPECT_EQ(refusal(), "the target 'y' is 'a' in all training rows: there is nothing to learn");
  put("x,y\n1,a\ninf,b\n", good);
  EXPECT_EQ(refusal(), "'train.csv', line 3: column 'x' has a number that is not finite");
  put("x\n1\n2\n", good);
  EXPECT_EQ(refusal(),
            "'train.csv', line 1: there is one column alone, 'x'; columns are separated "
            "by commas, semicolons or tabs");
  put(good, "x,y\n1,c\n");
  EXPECT_EQ(refusal(), "'test.csv', line 2: 'c' is no class of the training rows (column 'y')");
  put(good, "x,y\none,a\n");
  EXPECT_EQ(
      refusal(),
      "'test.csv', line 2: column 'x' is of numbers, and has 'one'; correct it, or train with "
      "--missing 'one' (a missing value) or --ignore 'x'");
  put(good, "z,y\n1,a\n");
  EXPECT_EQ(refusal(), "'test.csv', line 1: there is no column 'x'; there are z, y");
  put(good, good);
  EXPECT_EQ(refusal(chosen("q")), "target: there is no column 'q'; there are x, y");
  EXPECT_EQ(refusal(chosen("", TableTask::kRegression)),
            "the target 'y' is not of numbers ('a', 'train.csv', line 2): --task classification "
            "predicts texts");
}

DataOptions weighted(const std::string& column) {
  DataOptions options;
  options.table.weights = column;
  return options;
}

TEST_F(Table, RowsHaveWeights) {
  put("x,w,y\n1,0,a\n2,31,a\n3,0.5,b\n4,1.0004,b\n", "x,y\n5,a\n");
  const Dataset data = load(weighted("w"));
  EXPECT_EQ(data.train.tensors[0].shape, Shape{1});
  EXPECT_EQ(data.train.numbers<int16_t>(kWeightTensor),
            (std::vector<int16_t>{0, 31 * 1024, 512, 1024}));
  EXPECT_EQ(data.train.tensors[0].example_bytes(), 2);
  EXPECT_TRUE(data.test.numbers<int16_t>(kWeightTensor).empty());
  EXPECT_EQ(data.info.table->weights, "w");
  EXPECT_EQ(data.info.bytes, 5 * (2 + 2) + 4 * 2);
  const Examples examples = examples_of(data.train);
  ASSERT_EQ(examples.specs.size(), 3u);
  EXPECT_EQ(data.info.specs.back().name, kWeightTensor);
  int16_t number = 0, weight = 0;
  int32_t label = 0;
  std::byte* const places[] = {reinterpret_cast<std::byte*>(&number),
                               reinterpret_cast<std::byte*>(&label),
                               reinterpret_cast<std::byte*>(&weight)};
  examples.write(0, 2, places);
  EXPECT_EQ(label, 1);
  EXPECT_EQ(weight, 512);
}

TEST_F(Table, WeightsAreOfTheHash) {
  put("x,w,y\n1,1,a\n2,2,a\n3,1,b\n4,1,b\n", "x,y\n5,a\n");
  const std::string before = data_sha256(load(weighted("w")));
  put("x,w,y\n1,1,a\n2,1,a\n3,1,b\n4,1,b\n", "x,y\n5,a\n");
  EXPECT_NE(data_sha256(load(weighted("w"))), before);
}

TEST_F(Table, TheLastColumnOfWeightsIsNoTarget) {
  put("x,z,w\n1,a,1\n2,b,2\n3,a,1\n4,b,1\n", "x,z\n5,a\n");
  EXPECT_EQ(load(weighted("w")).info.table->target.name, "z");
}

TEST_F(Table, RefusesOtherWeights) {
  const auto of = [&](const std::string& weight) {
    put("x,w,y\n1,1,a\n2," + weight + ",b\n3,1,a\n4,1,b\n", "x,y\n5,a\n");
    return refusal(weighted("w"));
  };
  for (const char* weight : {"heavy", "-1", "31.5", "nan", "inf", "1e999", "-inf"}) {
    EXPECT_EQ(of(weight).find("'train.csv', line 3: column 'w' has '"), 0u) << of(weight);
    EXPECT_NE(of(weight).find("weights of rows are numbers from 0 to 31"), std::string::npos);
  }
  EXPECT_EQ(of(""),
            "'train.csv', line 3: column 'w' has no weight; weights of rows are numbers from 0 to "
            "31");
  EXPECT_EQ(of("-0"), "accepted");
  EXPECT_EQ(refusal(weighted("v")), "row-weights: there is no column 'v'; there are x, w, y");
  EXPECT_EQ(refusal(weighted("y")),
            "row-weights: the column 'y' is the target; --target names another");
  put("x,w,y\n1,0,a\n2,0.0004,b\n3,0,a\n4,0,b\n", "x,y\n5,a\n");
  EXPECT_EQ(
      refusal(weighted("w")),
      "row-weights: the column 'w' is 0 in all training rows, or too small; steps are 1/1024");
  DataOptions ignored = weighted("w");
  ignored.table.ignore = "w";
  EXPECT_EQ(refusal(ignored), "row-weights: the column 'w' is ignored");
}

TEST(TableSchemas, AsJsonAndBack) {
  const TableSchema schema{
      .columns = {{.name = "a", .mean = 0.1, .deviation = 1.0 / 3, .missing = 4},
                  {.name = "ü", .categories = {"x", "y\"z"}}},
      .target = {.name = "t", .categories = {"1", "2"}}};
  const auto read = parse_table_schema(to_json(schema));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(schema));
  EXPECT_EQ(read->columns[0].deviation, 1.0 / 3);
  EXPECT_EQ(read->features(), 3);
  EXPECT_EQ(to_json(schema).find("weights"), std::string::npos);
  TableSchema with_weights = schema;
  with_weights.weights = "w";
  EXPECT_EQ(parse_table_schema(to_json(with_weights))->weights, "w");
  for (const char* text :
       {"", "[]", "{}", R"({"columns":[],"target":{"name":"t","missing":0}})",
        R"({"columns":[],"target":{"name":"t","missing":0,"mean":0,"deviation":0}})",
        R"({"columns":[],"target":{"name":"t","missing":0,"categories":[]}})"}) {
    EXPECT_FALSE(parse_table_schema(text).ok()) << text;
  }
}

}  // namespace
}  // namespace mantissa
