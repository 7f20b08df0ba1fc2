// Texts with places for words.
#pragma once

#include <map>
#include <string>

namespace mantissa::device {

// The words that stand for @NAME@.
using Words = std::map<std::string, std::string>;
std::string with_words(std::string text, const Words& words);
std::string upper_case(std::string text);

}  // namespace mantissa::device
