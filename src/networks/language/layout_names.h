// The names of tensors in Llama's layout: ours, Hugging Face's and GGUF's.
#pragma once

#include <string>

namespace mantissa {

// "block1.query.weights" to "model.layers.0.self_attn.q_proj.weight".
std::string name_in_layout(const std::string& parameter);

// "blk.0.attn_q.weight" to the same; a name of no layout stays.
std::string layout_name_of_gguf(const std::string& tensor);

// The way back.
std::string gguf_name_of_layout(const std::string& name);

// Whether a parameter belongs to queries or keys, whose rows GGUF files of the architecture llama
// have in another order.
bool is_turned(const std::string& parameter);

}  // namespace mantissa
