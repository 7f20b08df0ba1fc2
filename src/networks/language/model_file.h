// Language models in files of other programs: GGUF files, and folders with config.json,
// safetensors and tokenizer.json, as Hugging Face's transformers writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tokenizers/byte_bpe/byte_bpe.h"
#include "data/tokenizers/byte_bpe/chat_template.h"
#include "models/decoder.h"
#include "onnx/import/import.h"

namespace mantissa {

// A tensor of such a file.
struct ModelTensor {
  std::string name;  // in Hugging Face's names of the layout
  std::string name_in_file;
  std::string type;            // "Q4_1", "BF16"
  std::vector<int64_t> shape;  // the slowest dimension first
};

// What a file is, and what of it the program lacks. Only the header was read.
struct LanguageModelFile {
  std::string path;
  std::string architecture;  // a family's name (families.h), or another
  std::string name;          // that its makers gave it; may be empty
  DecoderSizes sizes;
  int64_t positions = 0;  // of the longest text that it was trained with; 0: not said
  std::vector<ModelTensor> tensors;
  std::string tokenizer_kind;  // "gpt2, smollm": as the file names it
  std::optional<ByteBpe> tokenizer;
  std::optional<ChatTemplate> chat;
  std::string chat_refused;  // why the file's template is not followed here; "": it is, or none
  // What the file asks for and the program does not have, each with the key or the tensor that
  // asks.
  std::vector<std::string> lacks;

  // The numbers of a tensor, by its name in the file.
  std::function<Result<std::vector<float>>(const std::string& name)> floats;
  // Its bytes as they are in the file; null: files of this kind have no blocks.
  std::function<Result<std::vector<std::byte>>(const std::string& name)> bytes;
  // Rows of queries and keys are in GGUF's order for the architecture llama: neighbours are a pair.
  bool neighbours_are_pairs = false;
};

// Whether a path is a GGUF file, by its name or its first bytes, or a folder whose config.json
// names a decoder: the architectures end with ForCausalLM or LMHeadModel, or the model_type is
// known.
Result<bool> is_model_file(const std::filesystem::path& path);

// Reads all but the numbers. Errors name the file: damaged files, those without sizes. What can be
// read and not be computed is in `lacks`.
Result<LanguageModelFile> read_language_model(const std::filesystem::path& path);

// What the file is, a line each. Of what it lacks the first ten.
std::vector<std::string> describe(const LanguageModelFile& file);

// The first ten of such a list, and how many more there are. A file may have any number of them.
std::vector<std::string> first_of(const std::vector<std::string>& lacks);

// The weights that a network gets from a file.
enum class ImportedWeights : uint8_t {
  kFloats,
  kBlocks,  // blocks of Q4_0, Q4_1 and Q8_0 stay as they are, and are not trained
};

// The network with its numbers, for sequences of so many tokens (0: 128, or as many as it has
// positions). An error lists what the program lacks, and tensors that are missing or have other
// shapes.
Result<onnx::ImportedNetwork> import_language_model(
    const LanguageModelFile& file, int64_t sequence,
    ImportedWeights weights = ImportedWeights::kFloats);

// Its tokenizer and chat template as an entry of a file's metadata. If the network knows more
// tokens than the tokenizer, the others are special tokens, "<|unused 151646|>".
Result<std::string> tokenizer_entry(const LanguageModelFile& file);

}  // namespace mantissa
