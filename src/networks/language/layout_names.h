// The names of tensors in the layouts of decoders: ours, Hugging Face's and GGUF's.
#pragma once

#include <string>

#include "models/decoder.h"

namespace mantissa {

// "block1.query.weights" to "model.layers.0.self_attn.q_proj.weight".
std::string name_in_layout(DecoderLayout layout, const std::string& parameter);

// "blk.0.attn_q.weight" to the same; a name of no layout stays.
std::string layout_name_of_gguf(DecoderLayout layout, const std::string& tensor);

// The way back.
std::string gguf_name_of_layout(DecoderLayout layout, const std::string& name);

// Whether a parameter belongs to queries or keys, whose rows GGUF files of the architecture llama
// have in another order.
bool is_turned(const std::string& parameter);

// Whether folders have a matrix of the layout as [inputs, outputs], as GPT-2's Conv1D has it.
bool is_transposed_in_folders(DecoderLayout layout, const std::string& name);

}  // namespace mantissa
