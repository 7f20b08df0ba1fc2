// Language models as GGUF files.
#include <algorithm>
#include <cstring>
#include <utility>

#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "formats/gguf/gguf_blocks.h"
#include "formats/gguf/gguf_writer.h"
#include "networks/language/layout_names.h"
#include "networks/language/rotary_scaling.h"
#include "networks/language/written_model.h"
#include "runtime/weight_blocks.h"

namespace mantissa {
namespace {

uint32_t number_of(WeightType type) {
  if (type == WeightType::kF32) return kGgufF32;
  if (type == WeightType::kF16) return kGgufF16;
  return type == WeightType::kBF16 ? kGgufBF16 : kGgufQ8_0;
}

// Other kinds become Q4_0 (as_q4_0).
uint32_t number_of(BlockKind kind) {
  if (kind == BlockKind::kQ4_1) return kGgufQ4_1;
  return kind == BlockKind::kQ8_0 ? kGgufQ8_0 : kGgufQ4_0;
}

// general.file_type: ggml's number for the type that most matrices have. The type that was asked
// for comes first among as many.
uint32_t file_type(WeightType type, std::span<const GgufTensorBytes> tensors) {
  constexpr std::pair<uint32_t, uint32_t> kTypes[] = {
      {kGgufF32, 0},  {kGgufF16, 1},  {kGgufQ4_0, 2},
      {kGgufQ4_1, 3}, {kGgufQ8_0, 7}, {kGgufBF16, 32}};
  uint32_t found = number_of(type);
  if (type == WeightType::kBlocks) {
    const auto count = [&](uint32_t of) {
      return std::ranges::count_if(tensors, [&](const GgufTensorBytes& tensor) {
        return tensor.shape.size() > 1 && tensor.type == of;
      });
    };
    for (const auto& each : kTypes) {
      if (count(each.first) > count(found)) found = each.first;
    }
  }
  return std::ranges::find(kTypes, found, [](const auto& each) { return each.first; })->second;
}

void add_llama_keys(const WrittenModel& model, GgufKeys& keys) {
  const DecoderSizes& sizes = model.sizes;
  const std::string front = model.architecture + ".";
  const auto size = [&](const char* key, int64_t value) {
    keys.add_whole(front + key, static_cast<uint32_t>(value));
  };
  size("attention.head_count_kv", sizes.key_heads);
  if (sizes.head_channels * sizes.heads != sizes.channels) {
    size("attention.key_length", sizes.head_channels);
    size("attention.value_length", sizes.head_channels);
  }
  size("rope.dimension_count", sizes.head_channels);
  keys.add_real(front + "rope.freq_base", static_cast<float>(sizes.rotary_base));
  if (sizes.rotary_factors.size() == 1) {
    keys.add_text(front + "rope.scaling.type", "linear");
    keys.add_real(front + "rope.scaling.factor",
                  static_cast<float>(real_factor(sizes.rotary_factors[0])));
  }
  keys.add_real(front + "attention.layer_norm_rms_epsilon", static_cast<float>(sizes.epsilon));
}

// Factors of pairs by which rotary angles are divided: float32 has them exactly.
GgufTensorBytes factors_of(const DecoderSizes& sizes) {
  GgufTensorBytes tensor = {"rope_freqs.weight", {std::ssize(sizes.rotary_factors)}, kGgufF32, {}};
  std::vector<float> numbers;
  for (const int64_t factor : sizes.rotary_factors) {
    numbers.push_back(static_cast<float>(real_factor(factor)));
  }
  append_numbers(kGgufF32, numbers, tensor.bytes);
  return tensor;
}

GgufKeys keys_of(const WrittenModel& model, const std::string& name, uint32_t file_type) {
  constexpr uint32_t kQuantisationVersion = 2;
  const DecoderSizes& sizes = model.sizes;
  GgufKeys keys;
  const auto size = [&](const char* key, int64_t value) {
    keys.add_whole(model.architecture + "." + key, static_cast<uint32_t>(value));
  };
  keys.add_text("general.architecture", model.architecture);
  keys.add_text("general.name", name);
  keys.add_whole("general.file_type", file_type);
  keys.add_whole("general.quantization_version", kQuantisationVersion);
  size("block_count", sizes.layers);
  size("context_length", model.positions);
  size("embedding_length", sizes.channels);
  size("feed_forward_length", sizes.inner);
  size("attention.head_count", sizes.heads);
  size("vocab_size", sizes.vocabulary);
  if (sizes.layout == DecoderLayout::kLlama) {
    add_llama_keys(model, keys);
  } else {
    keys.add_real(model.architecture + ".attention.layer_norm_epsilon",
                  static_cast<float>(sizes.epsilon));
  }
  if (model.tokenizer != nullptr) {
    add_byte_bpe(*model.tokenizer, model.chat, sizes.vocabulary, keys);
  }
  return keys;
}

// The rows of a tensor, in the file's order and type.
class Rows {
 public:
  Rows(const WrittenModel& model, const WrittenTensor& tensor) : model_(model), tensor_(tensor) {}

  // In files of the architecture llama, neighbouring rows of queries and keys are a pair. Here row j
  // and row j + half of a head are one.
  int64_t source(int64_t row) const {
    if (model_.architecture != "llama" || !is_turned(tensor_.name)) return row;
    const int64_t head = model_.sizes.head_channels, half = head / 2;
    const int64_t first = row / head * head, place = row % head;
    return first + place % 2 * half + place / 2;
  }

  // A vector's numbers are its rows.
  std::string numbers(uint32_t type) const {
    std::string bytes;
    if (tensor_.is_matrix()) {
      std::vector<float> row(static_cast<size_t>(tensor_.columns()));
      for (int64_t i = 0; i < tensor_.rows(); ++i) {
        row_numbers(tensor_, source(i), row);
        type == kGgufQ8_0 ? append_q8_0(row, bytes) : append_numbers(type, row, bytes);
      }
      return bytes;
    }
    std::vector<float> all(static_cast<size_t>(tensor_.columns())), sorted;
    row_numbers(tensor_, 0, all);
    for (int64_t i = 0; i < tensor_.columns(); ++i) {
      sorted.push_back(all[static_cast<size_t>(source(i))]);
    }
    append_numbers(type, sorted, bytes);
    return bytes;
  }

  // Whether blocks of Q8_0 hold the mantissas: scales are float16.
  bool is_exact() const {
    if (tensor_.is_merged() || tensor_.from.type != DataType::kInt8) return false;
    for (int64_t row = 0; row < tensor_.rows(); ++row) {
      if (exponent(row) < kLeastExponent || exponent(row) > kMostExponent) return false;
    }
    return true;
  }

  std::string mantissas() const {
    std::string bytes;
    const auto columns = static_cast<size_t>(tensor_.columns());
    const auto* all = reinterpret_cast<const int8_t*>(tensor_.from.numbers.data());
    for (int64_t row = 0; row < tensor_.rows(); ++row) {
      const int64_t from = source(row);
      append_q8_0(std::span(all + from * tensor_.columns(), columns), exponent(from), bytes);
    }
    return bytes;
  }

  // The blocks of all rows, as they are, or as Q4_0.
  std::string blocks() const {
    const BlockKind kind = tensor_.from.blocks;
    const auto row = static_cast<size_t>(bytes_in_blocks(kind, tensor_.columns()));
    std::string bytes;
    const auto append = [&](std::span<const std::byte> own) {
      bytes.append(reinterpret_cast<const char*>(own.data()), own.size());
    };
    for (int64_t i = 0; i < tensor_.rows(); ++i) {
      const auto own = tensor_.from.numbers.subspan(static_cast<size_t>(source(i)) * row, row);
      is_of_gguf(kind) ? append(own) : append(as_q4_0(kind, own));
    }
    return bytes;
  }

 private:
  static constexpr int kLeastExponent = -24, kMostExponent = 15;

  int exponent(int64_t row) const {
    const std::span<const std::byte> exponents = tensor_.from.exponents;
    const int64_t place = exponents.size() == sizeof(int16_t) ? 0 : row;
    int16_t number = 0;
    std::memcpy(&number, exponents.data() + place * int64_t{sizeof number}, sizeof number);
    return number;
  }

  const WrittenModel& model_;
  const WrittenTensor& tensor_;
};

// How many matrices are in blocks as they were, or in Q4_0 in place of larger groups or of 3 bits,
// have Q8_0's numbers exactly, are rounded to them, or are not in its blocks.
struct Counts {
  int64_t kept = 0, as_q4_0 = 0, exact = 0, rounded = 0, others = 0;
};

GgufTensorBytes tensor_bytes(const WrittenModel& model, const WrittenTensor& tensor,
                             WeightType type, Counts& counts) {
  const Rows rows(model, tensor);
  GgufTensorBytes out;
  out.name = gguf_name_of_layout(model.sizes.layout, tensor.name);
  for (int i = 0; i < tensor.from.shape.rank; ++i) out.shape.push_back(tensor.from.shape[i]);
  out.type = tensor.is_matrix() ? number_of(type) : kGgufF32;
  if (type == WeightType::kBlocks && tensor.is_in_blocks() && !tensor.is_merged()) {
    ++(is_of_gguf(tensor.from.blocks) ? counts.kept : counts.as_q4_0);
    out.type = number_of(tensor.from.blocks);
    out.bytes = rows.blocks();
  } else if (out.type != kGgufQ8_0) {
    out.bytes = rows.numbers(out.type);
  } else if (tensor.columns() % kQ8Elements != 0) {
    ++counts.others;
    out.type = kGgufF32;
    out.bytes = rows.numbers(out.type);
  } else if (rows.is_exact()) {
    ++counts.exact;
    out.bytes = rows.mantissas();
  } else {
    ++counts.rounded;
    out.bytes = rows.numbers(out.type);
  }
  return out;
}

}  // namespace

Result<WriterNotes> write_gguf_model(const std::filesystem::path& path, const WrittenModel& model,
                                     const std::string& name, WeightType type) {
  Counts counts;
  std::vector<GgufTensorBytes> tensors;
  if (model.sizes.rotary_factors.size() > 1) {
    if (model.architecture != "llama") {
      return invalid_input("rotary angles have a factor for each pair, which GGUF files of " +
                           model.architecture + " have not: choose --target huggingface");
    }
    tensors.push_back(factors_of(model.sizes));
  }
  for (const WrittenTensor& tensor : model.tensors) {
    tensors.push_back(tensor_bytes(model, tensor, type, counts));
  }
  const GgufKeys keys = keys_of(model, name, file_type(type, tensors));
  MANTISSA_RETURN_IF_ERROR(write_gguf(path, keys, tensors));
  WriterNotes notes;
  const auto say = [&](int64_t count, const char* what) {
    if (count > 0) notes.push_back(std::to_string(count) + what);
  };
  say(counts.kept, " matrices are in their blocks, as they were");
  say(counts.as_q4_0, " matrices are in Q4_0 exactly: 4 bits, and a scale for each 32 weights, for "
                      "GGUF has no blocks of their kinds");
  say(counts.exact, " matrices of 8 bits are in Q8_0 exactly");
  say(counts.rounded, " matrices are rounded to Q8_0");
  say(counts.others, " matrices are in F32: their rows are no multiple of 32");
  return notes;
}

}  // namespace mantissa
