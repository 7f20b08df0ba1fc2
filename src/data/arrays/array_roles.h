// Assigns the arrays of a file to inputs of a network and to splits.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tables/table_schema.h"

namespace mantissa {

// The names of a network's arrays: its inputs, and of several outputs each one's targets. A network
// with one output has targets of the usual names.
struct NamedPlaces {
  const std::vector<ArrayInput>& inputs;
  std::vector<std::string> outputs = {};

  size_t targets() const { return outputs.empty() ? 1 : outputs.size(); }
};

// The names of the arrays of each input, and behind them of the targets; "": there is none.
using ArrayNames = std::vector<std::string>;

struct SplitNames {
  ArrayNames train = {}, validation = {}, test = {};  // the last two may be empty
  std::vector<std::string> notes = {};                // arrays that no input reads
};

// "vector", "vector_train" or "test-vector" for the input or output 'vector', in any case. A network with one input beside its lengths also takes x. Errors name the file: two
// arrays for the same, an input or the targets without an array.
Result<SplitNames> find_roles(const std::filesystem::path& path,
                              const std::vector<std::string>& names,
                              const NamedPlaces& places);

// The same of inputs alone, of all examples: targets may be missing.
Result<ArrayNames> find_inputs(const std::filesystem::path& path,
                               const std::vector<std::string>& names,
                               const NamedPlaces& places);

// Whether an array of that name is read: true for inputs, false for targets; nothing: it is not.
std::optional<bool> reads_array(const std::string& name, const NamedPlaces& places);

// "pictures, uint8 [N, 28, 28, 1]": the arrays that the input takes.
std::string wanted_text(const ArrayInput& input);

}  // namespace mantissa
