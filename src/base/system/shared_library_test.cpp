#include "base/system/shared_library.h"

#include <gtest/gtest.h>

namespace mantissa {
namespace {

constexpr const char* kMath = "libm.so.6";

TEST(SharedLibrary, FindsFunctions) {
  SharedLibrary library(kMath);
  double (*const root)(double) = library.find("sqrt");
  ASSERT_EQ(library.error(), "");
  EXPECT_EQ(root(9), 3);
}

TEST(SharedLibrary, NamesTheFunctionThatIsMissing) {
  SharedLibrary library(kMath);
  void (*const missing)() = library.find("no_such_function");
  EXPECT_EQ(missing, nullptr);
  EXPECT_EQ(library.error(), "libm.so.6 has no no_such_function");
}

TEST(SharedLibrary, NamesTheLibraryThatIsMissing) {
  SharedLibrary library("libno_such_library.so.1");
  void (*const missing)() = library.find("sqrt");
  EXPECT_EQ(missing, nullptr);
  EXPECT_EQ(library.error().find("libno_such_library.so.1 cannot be loaded: "), 0u);
}

}  // namespace
}  // namespace mantissa
