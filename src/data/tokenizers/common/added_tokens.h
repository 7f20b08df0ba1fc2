// A tokenizer's tokens beside those of its model, as in Hugging Face's tokenizers. They are found
// in a text before it is divided into words.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mantissa {

struct AddedToken {
  std::string text;
  int32_t number = 0;
  bool special = false;                          // stands for something other than text
  bool single_word = false;                      // not within a word
  bool left_strip = false, right_strip = false;  // takes the white space beside it
  bool normalised = false;                       // is found in normalised text, itself normalised
  bool operator==(const AddedToken&) const = default;
};

// Finds some of them in texts: from the left, of those that begin at one place the longest. One
// that may not stand within a word and does is passed over, with all of its characters.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  // `texts`: the texts of the tokens, one for each. If two are equal, the first counts.
  AddedTokenFinder(std::vector<AddedToken> tokens, std::vector<std::string> texts);

  // Calls part(text) for each non-empty text between tokens, and token(number) for each token, in
  // their order. The text is UTF-8.
  void divide(std::string_view text, const std::function<void(std::string_view)>& part,
              const std::function<void(int32_t)>& token) const;

 private:
  // A token that begins at a place, and its bytes there; null: there is no token.
  struct Match {
    const AddedToken* token = nullptr;
    size_t length = 0;
  };
  Match at(std::string_view text, size_t place) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> by_text_;
  std::vector<size_t> lengths_;        // the largest first
  std::array<bool, 256> begins_ = {};  // by first byte
};

}  // namespace mantissa
