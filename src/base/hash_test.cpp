#include "base/hash.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <utility>

namespace mantissa {
namespace {

// The examples of FIPS 180-4.
TEST(Sha256, GivesTheKnownAnswers) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

RC_GTEST_PROP(Sha256, IsTheSameInParts, (const std::string& a, const std::string& b)) {
  Sha256 hash;
  hash.update(a);
  Sha256 moved = std::move(hash);
  moved.update(b);
  RC_ASSERT(moved.hex_digest() == sha256_hex(a + b));
}

}  // namespace
}  // namespace mantissa
