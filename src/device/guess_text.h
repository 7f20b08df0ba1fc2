// The part of an exported network that says what its results mean: how its input is made, and the
// function that guesses a class, a class for each place, or labels.
#pragma once

#include <cstdint>
#include <string>

#include "infer/frozen_network.h"

namespace mantissa::device {

// Declarations and definitions of a network in C, with @p@ and @P@ for its prefix.
struct GuessText {
  std::string declarations;  // in the header, with constants
  std::string definitions;
};

// `results`: how many numbers the network gives, each a mantissa times 2^exponent. The guess is that
// of `predict`, with its thresholds: constants in units of the results, which a result must exceed.
GuessText guess_text(const FrozenDescription& description, int64_t results, int exponent);

// Comments, a line each, that say how the numbers of rows and arrays become those that the network
// reads, and its results numbers of a table; "" of pictures.
std::string units_text(const FrozenDescription& description);

}  // namespace mantissa::device
