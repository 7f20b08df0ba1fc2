// Language models in the layouts of decoders, on their way into files of other programs: GGUF files,
// folders of Hugging Face's transformers, and adapters in PEFT's layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tokenizers/byte_bpe/byte_bpe.h"
#include "data/tokenizers/byte_bpe/chat_template.h"
#include "graph/graph.h"
#include "models/decoder.h"
#include "networks/adapters.h"
#include "runtime/named_parameters.h"

namespace mantissa {

// The type of numbers in the files. Norms and biases are F32 in GGUF files. kBlocks: weights in
// blocks stay as they are, and other matrices are as with kQ8_0; of GGUF files.
enum class WeightType : uint8_t { kF32, kF16, kBF16, kQ8_0, kBlocks };
const char* weight_type_name(WeightType type);  // "F32"

// A matrix, a norm's scale or a bias, with the adapter that is merged into it.
struct WrittenTensor {
  std::string name;  // Hugging Face's
  NamedParameter from;
  // Of a merged adapter; empty: there is none. A is [rank, in], B [out, rank].
  std::vector<double> a = {}, b = {};
  double factor = 0;

  int64_t rows() const { return from.shape.rank > 1 ? from.shape[0] : 1; }
  int64_t columns() const { return from.shape.last(); }
  bool is_matrix() const { return from.shape.rank > 1; }
  bool is_merged() const { return !a.empty(); }
  bool is_in_blocks() const { return from.blocks != BlockKind::kNone; }
};

struct WrittenModel {
  std::string architecture;  // a family's name (families.h)
  DecoderSizes sizes;
  int64_t positions = 0;
  std::vector<WrittenTensor> tensors;
  const ByteBpe* tokenizer = nullptr;  // null: there is none
  std::optional<ChatTemplate> chat;
};

// The sizes of a network that decoder_lm made, with adapters or without. An error: another network.
Result<DecoderSizes> decoder_sizes(const Graph& network);

// Such a network without its adapters.
Result<Graph> without_adapters(const Graph& network);

// The model of a network and its parameters, which outlive it; adapters are merged. An error: a
// network of another layout, or a parameter that is missing.
Result<WrittenModel> written_model(const Graph& network,
                                   std::span<const NamedParameter> parameters);

// A row of real numbers, with the adapter.
void row_numbers(const WrittenTensor& tensor, int64_t row, std::span<float> numbers);

// What the files hold of the numbers: a line each.
using WriterNotes = std::vector<std::string>;

// A GGUF file. Rows of 8 bits at one exponent become blocks of Q8_0 exactly; merged and other rows
// are rounded as ggml does it. With kBlocks blocks are written as they are, unless they are merged.
// Rows that are no whole number of blocks become F32. A note says which of these there were.
// Tensors of BF16 and F16 are rounded to nearest. An error: rotary angles with factors of pairs,
// which files of llama alone have.
Result<WriterNotes> write_gguf_model(const std::filesystem::path& path, const WrittenModel& model,
                                     const std::string& name, WeightType type);

// A folder with config.json, model.safetensors and, if there is a tokenizer, tokenizer.json and
// tokenizer_config.json. Not of Q8_0 and kBlocks. An error: rotary angles with factors that no rule
// gives.
Result<WriterNotes> write_model_folder(const std::filesystem::path& folder,
                                       const WrittenModel& model, WeightType type);

// A folder with adapter_config.json and adapter_model.safetensors. `base`: the model that they
// belong to, as PEFT loads it; may be empty. An error: a network without adapters.
Result<WriterNotes> write_adapters(const std::filesystem::path& folder, const Graph& network,
                                   std::span<const NamedParameter> parameters,
                                   const std::string& base);

}  // namespace mantissa
