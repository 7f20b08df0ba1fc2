// The weights of a language model, which go into blocks one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "numerics/block_kind.h"
#include "start/language/float_model.h"

namespace mantissa {

class LanguageBlocks {
 public:
  // The embedding and the classifier get q8_0, as layers of the blocks do that fit one of the
  // patterns, and all other layers `kind`; or, if rows are no multiple of its groups, the kind with
  // the largest groups that divide them. Errors: a pattern that fits no layer, rows that no
  // groups divide, weights that no block holds.
  static Result<LanguageBlocks> choose(FloatLanguageModel& model, BlockKind kind,
                                       const std::vector<std::string>& wide);

  BlockKind kind(int parameter) const { return kinds_[static_cast<size_t>(parameter)]; }
  // Parameters whose kind has smaller groups than were asked for.
  int64_t smaller_groups() const { return smaller_groups_; }
  // Bytes of all blocks.
  int64_t bytes() const;
  // Weights of the largest layer, without the tables.
  int64_t largest_layer() const;

  // Keeps the blocks of a parameter, and gives the model their numbers.
  void set(int parameter, std::vector<std::byte> blocks);
  // The embedding and the classifier, row by row, rounded to nearest.
  void pack_tables();

  // Writes the network, as import does. All parameters were set. Returns describe_blocks.
  Result<std::string> write(const std::string& path, const std::string& source,
                            const std::map<std::string, std::string>& entries);

 private:
  explicit LanguageBlocks(FloatLanguageModel& model)
      : model_(&model), kinds_(model.graph.parameters.size()), blocks_(kinds_.size()) {}
  Status check_weights(const std::string& layer, int parameter) const;
  const Shape& shape_of(int parameter) const {
    return model_->graph.parameters[static_cast<size_t>(parameter)].shape;
  }

  FloatLanguageModel* model_;
  std::vector<BlockKind> kinds_;  // by parameter
  std::vector<std::vector<std::byte>> blocks_;
  int64_t smaller_groups_ = 0;
};

}  // namespace mantissa
