// The one table of the import: the value that a node reads decides which function imports it.
#include "onnx/import/operators.h"

#include <gtest/gtest.h>

namespace mantissa::onnx {
namespace {

NodeData reader_of(std::vector<std::string> inputs) {
  return {"node", "Add", "", std::move(inputs), {"result"}, {}};
}

TEST(ImportOperators, AFunctionBelongsToTheFormThatANodeReads) {
  ImportContext context;
  context.values["image"].form = Form::kImage;
  context.values["rows"].form = Form::kRows;
  context.scores["scores"] = {};
  context.unknown["lost"] = Form::kRows;
  EXPECT_EQ(form_of(context, reader_of({"weights", "image"})), Form::kImage);
  EXPECT_EQ(form_of(context, reader_of({"weights", "rows"})), Form::kRows);
  EXPECT_EQ(form_of(context, reader_of({"scores"})), Form::kRows);
  EXPECT_EQ(form_of(context, reader_of({"lost"})), Form::kRows);
  EXPECT_EQ(form_of(context, reader_of({"weights"})), Form::kImage);
  context.form = Form::kRows;  // the inputs decide for constants alone
  EXPECT_EQ(form_of(context, reader_of({"weights"})), Form::kRows);
}

TEST(ImportOperators, ARowHasAFunctionForEachFormThatIsPossible) {
  EXPECT_NE(import_function("Add", Form::kImage), import_function("Add", Form::kRows));
  EXPECT_EQ(import_function("Gemm", Form::kImage), import_function("Gemm", Form::kRows));
  EXPECT_EQ(import_function("Conv", Form::kRows), nullptr);
  EXPECT_EQ(reason_against("Conv", Form::kRows),
            "this operator can be imported in networks of pictures only");
  EXPECT_EQ(import_function("LSTM", Form::kImage), nullptr);
  EXPECT_EQ(reason_against("LSTM", Form::kImage),
            "this operator can be imported in networks of sequences only");
  EXPECT_EQ(
      reason_against("Erf", Form::kImage),
      "this operator cannot be imported, since nothing here trains it; `mantissa run` computes it");
  EXPECT_EQ(reason_against("Unheard", Form::kImage), "this operator cannot be imported");
  EXPECT_EQ(import_function("Erf", Form::kRows), nullptr);
  EXPECT_EQ(reason_against("Erf", Form::kRows), reason_against("Erf", Form::kImage));
}

}  // namespace
}  // namespace mantissa::onnx
