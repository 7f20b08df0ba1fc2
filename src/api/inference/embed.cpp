// The embed command.
#include "infer/text/embed.h"

#include <chrono>
#include <filesystem>

#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/settings/settings.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "formats/arrays/npz.h"
#include "mantissa/language.h"
#include "run/settings/run_config.h"
#include "start/load_encoder.h"

namespace mantissa {
namespace {

struct EmbeddingConfig {
  std::string from, data, out;
  Format format;
  EmbeddingOptions options;
  int threads = 1;
  Isa isa = Isa::kScalar;
};

constexpr auto kEmbedding = &EmbeddingConfig::options;

constexpr SettingOf<EmbeddingConfig> kEmbedRows[] = {
    {"from", "encoder: a file that import wrote, or a folder in BERT's layout", "",
     parse_text<&EmbeddingConfig::from>},
    {"data", "text file, a sentence on each line", "", parse_text<&EmbeddingConfig::data>},
    {"out", "file for the vectors, float32 [sentences, channels]: .npy or .npz", "",
     parse_text<&EmbeddingConfig::out>},
    {"format", "number format", "fp32", parse_by<parse_format, &EmbeddingConfig::format>},
    {"sequence", "most tokens of a sentence (left out: as the network says)", "",
     parse_whole<3, 1 << 16, kEmbedding, &EmbeddingOptions::sequence>},
    {"batch-size", "sentences computed at once; changes no result in integers", "32",
     parse_whole<1, 1 << 16, kEmbedding, &EmbeddingOptions::batch_size>},
    kThreads<EmbeddingConfig>,
    kIsa<EmbeddingConfig>};
constexpr CommandOf<EmbeddingConfig> kEmbedCommand = {"embed", kEmbedRows};

Result<EmbeddingConfig> embedding_config(Settings settings) {
  MANTISSA_ASSIGN(EmbeddingConfig config, read_settings(kEmbedCommand, settings));
  if (config.from.empty()) {
    return invalid_input(
        "--from: name an encoder: a file that `mantissa import` wrote, or a "
        "folder with model.safetensors, config.json and tokenizer.json");
  }
  const std::string ending = std::filesystem::path(config.out).extension();
  if (!config.out.empty() && ending != ".npy" && ending != ".npz") {
    return invalid_input("out: '" + config.out + "' is neither NAME.npy nor NAME.npz");
  }
  return config;
}

Status write_vectors(const std::string& path, const SentenceVectors& vectors, int64_t count) {
  const NpyView view{"vectors",
                     NpyType::kFloat,
                     {count, vectors.channels},
                     std::as_bytes(std::span(vectors.numbers))};
  if (std::filesystem::path(path).extension() == ".npz") return write_npz(path, {&view, 1});
  MANTISSA_ASSIGN(const std::string header, npy_header(view));
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(header)), view.data};
  return write_file_atomically(path, parts);
}

}  // namespace

CommandInfo embed_command() { return info_of<kEmbedCommand>(); }

Outcome<Embeddings> embed(const Settings& settings, const std::vector<std::string>& given,
                          const std::function<bool(int64_t)>& observer) {
  std::vector<std::string> sentences = given;
  MANTISSA_ASSIGN(const EmbeddingConfig config, embedding_config(settings));
  const bool writes = !config.out.empty();
  if (writes) MANTISSA_RETURN_IF_ERROR(check_target("out", config.out));
  if (sentences.empty()) {
    if (config.data.empty()) {
      return invalid_input("--data: name a text file with a sentence on each line");
    }
    if (!writes) return invalid_input("--out: name the file for the vectors, .npy or .npz");
    MANTISSA_ASSIGN(sentences, read_sentences(config.data));
  }
  MANTISSA_ASSIGN(Encoder encoder, load_encoder(config.from, config.format));
  ThreadPool pool(config.threads);
  const auto begin = std::chrono::steady_clock::now();
  MANTISSA_ASSIGN(SentenceVectors vectors,
                  embed_sentences(encoder, sentences, config.options, pool, config.isa, observer));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const auto count = std::ssize(sentences);
  if (writes) MANTISSA_RETURN_IF_ERROR(write_vectors(config.out, vectors, count));
  return Embeddings{.sentences = count,
                    .channels = vectors.channels,
                    .truncated = vectors.truncated,
                    .seconds = seconds.count(),
                    .vectors = std::move(vectors.numbers)};
}

}  // namespace mantissa
