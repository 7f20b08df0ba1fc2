// Language models in Llama's layout with their weights in blocks of few bits: `quantize --blocks`,
// `--group` (docs/language.md, METHODS section 3, 0159, 0164).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "numerics/block_kind.h"
#include "quantise/weights/block_rounding.h"
#include "run/memory_plan.h"
#include "run/progress.h"

namespace mantissa {

// The entry of the written file's metadata: kind, method, and the text that weights were rounded
// by, as JSON.
inline constexpr const char* kBlocksEntry = "blocks";

struct LanguageQuantisation {
  std::string from;  // as read_language_source takes it
  std::string data;  // a text
  std::string out;   // a file as import writes it
  BlockKind kind = BlockKind::kQ4_0;
  quantise::BlockMethod method = quantise::BlockMethod::kLeastSquares;
  std::string method_name;
  std::vector<std::string> wide;  // patterns of layers that get q8_0
  int64_t calibration = 0;        // sequences of the text's training part; 0: of about 4,096 tokens
  int threads = 1;
  Isa isa = Isa::kScalar;
  int64_t memory_budget = 0;  // bytes; 0: none
};

struct LayerInBlocks {
  std::string name;
  BlockKind kind = BlockKind::kNone;
  // Relative error of the layer's outputs over the calibration: with weights rounded to nearest, and
  // with the weights as they are.
  double nearest_error = 0, error = 0;
};

struct QuantisedLanguageModel {
  std::vector<LayerInBlocks> layers;  // but for the embedding and the classifier, in q8_0
  int64_t calibration_tokens = 0;
  int64_t held_out_tokens = 0;             // of the text's test part, that losses are of
  double loss_before = 0, loss_after = 0;  // in fp32, nats a token
  std::string blocks;                      // describe_blocks
};

// Rounds the weights of all layers, block after block of the network: the inputs of a layer are
// the ones that it has behind the rounded layers of the blocks before. Writes the file. Tells a
// line for each layer, with its number and how many there are. Errors: another layout, weights in
// blocks already, rows that no groups divide, no tokens, a text that is too short.
Result<QuantisedLanguageModel> quantise_language_model(const LanguageQuantisation& settings,
                                                       const TrainObserver& observer);

}  // namespace mantissa
