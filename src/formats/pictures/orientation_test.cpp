#include "formats/pictures/orientation.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "formats/pictures/test_exif.h"

namespace mantissa {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes characters_of(const std::string& text) { return {text.begin(), text.end()}; }

TEST(ExifOrientation, IsReadInBothByteOrders) {
  for (const bool little_endian : {true, false}) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      EXPECT_EQ(exif_orientation(characters_of(exif_block(orientation, little_endian))),
                orientation);
    }
    for (const int unknown : {0, 9, 300}) {
      EXPECT_EQ(exif_orientation(characters_of(exif_block(unknown, little_endian))), 1);
    }
  }
}

TEST(ExifOrientation, OfDamagedBlocksIsUpright) {
  const std::string whole = exif_block(6, true);
  const size_t needed = 8 + 2 + 12 + 10;  // up to the value
  for (size_t length = 0; length <= whole.size(); ++length) {
    EXPECT_EQ(exif_orientation(characters_of(whole.substr(0, length))), length < needed ? 1 : 6);
  }
  std::string other = whole;
  other[8 + 2 + 12 + 2] = 4;  // another type
  EXPECT_EQ(exif_orientation(characters_of(other)), 1);
  other = whole;
  other[4] = other[5] = other[6] = other[7] = static_cast<char>(0xff);  // a directory far away
  EXPECT_EQ(exif_orientation(characters_of(other)), 1);
}

RC_GTEST_PROP(ExifOrientation, OfAnythingIsOneToEight, (const Bytes& garbage)) {
  Bytes exif = characters_of(exif_block(*rc::gen::inRange(0, 10), *rc::gen::arbitrary<bool>()));
  for (const uint8_t byte : garbage) exif[*rc::gen::inRange<size_t>(0, exif.size())] = byte;
  const int orientation = exif_orientation(exif);
  RC_ASSERT(orientation >= 1 && orientation <= 8);
  RC_ASSERT(exif_orientation(garbage) >= 1);
}

// The picture   1 2 3   as it is stored, and how it must look.
//               4 5 6
TEST(PlaceUpright, FollowsTheTablesOfExif) {
  const Bytes stored = {1, 2, 3, 4, 5, 6};
  const std::vector<Bytes> upright = {{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1},
                                      {4, 5, 6, 1, 2, 3}, {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3},
                                      {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Placement placement = place_upright(orientation, 2, 3);
    EXPECT_EQ(placement.height, orientation < 5 ? 2 : 3);
    EXPECT_EQ(placement.width, orientation < 5 ? 3 : 2);
    Bytes grey(6), colour(18);
    for (int64_t y = 0; y < 2; ++y) {
      const uint8_t* row = stored.data() + 3 * y;
      place_row(row, y, 3, 1, placement, grey.data());
      Bytes row_of_colours;
      for (int64_t x = 0; x < 3; ++x) {
        row_of_colours.insert(row_of_colours.end(), {row[x], static_cast<uint8_t>(row[x] + 10),
                                                     static_cast<uint8_t>(row[x] + 20)});
      }
      place_row(row_of_colours.data(), y, 3, 3, placement, colour.data());
    }
    EXPECT_EQ(grey, upright[orientation - 1]) << orientation;
    for (size_t i = 0; i < 6; ++i) {
      for (size_t c = 0; c < 3; ++c) EXPECT_EQ(colour[3 * i + c], grey[i] + 10 * c);
    }
  }
}

}  // namespace
}  // namespace mantissa
