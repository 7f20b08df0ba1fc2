// Byte-level BPE tokenizers of language models in files. What a file asks for and is not done here
// is an error that names it.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tokenizers/byte_bpe/byte_bpe.h"
#include "data/tokenizers/byte_bpe/chat_template.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/gguf_writer.h"

namespace mantissa {

// The tokenizer of a GGUF file, from its keys tokenizer.ggml.*. Errors: models other than gpt2,
// pre-tokenizers other than those of pre_tokens.h, a space before each text. Tokens of the type
// control are special, those of the type user-defined are found in texts, too. Qwen's texts are
// brought to NFC, as its tokenizer.json says; llama.cpp does not.
Result<ByteBpe> byte_bpe_of(const GgufFile& file);

// A tokenizer.json, Hugging Face's, with a BPE model. Errors: other models, normalizers (none or
// NFC are read), pre-tokenizers, post-processors and decoders, and truncation.
Result<ByteBpe> byte_bpe_of(const nlohmann::json& tokenizer);

// Its merges: each a list of two, or a text with a space between them.
Result<std::vector<ByteBpe::Merge>> byte_bpe_merges(const nlohmann::json& list);

// The tokenizer.json of a folder. Tokens that begin and end a text are those of
// tokenizer_config.json beside it. Errors name the file.
Result<ByteBpe> read_byte_bpe(const std::filesystem::path& folder);

// A model's chat template, as Jinja: of tokenizer_config.json or chat_template.jinja in a folder;
// "": there is none. Errors name the file.
Result<std::string> read_chat_template(const std::filesystem::path& folder);

// Writes a tokenizer and its chat template as keys of a GGUF file, which byte_bpe_of reads. Unused
// tokens fill the `vocabulary`, the rows of the network's table.
void add_byte_bpe(const ByteBpe& tokenizer, const std::optional<ChatTemplate>& chat,
                  int64_t vocabulary, GgufKeys& keys);

// Writes tokenizer.json and tokenizer_config.json into a folder. `positions`: of the longest text
// that the model takes.
Status write_byte_bpe(const std::filesystem::path& folder, const ByteBpe& tokenizer,
                      const std::optional<ChatTemplate>& chat, int64_t positions);

// A tokenizer and its chat template as an entry of a file's metadata, and back. `chat_refused`: why
// a model's template was not taken over; "": it was, or there is none.
struct ByteBpeEntry {
  ByteBpe tokenizer;
  std::optional<ChatTemplate> chat;
  std::string chat_refused = {};
};
std::string to_json(const ByteBpe& tokenizer, const std::optional<ChatTemplate>& chat,
                    const std::string& chat_refused = "");
Result<ByteBpeEntry> parse_byte_bpe(const std::string& json);

// Whether an entry is such a one, and not one of WordPiece.
bool is_byte_bpe(const std::string& json);

}  // namespace mantissa
