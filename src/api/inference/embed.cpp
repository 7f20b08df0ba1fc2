// The embed command.
#include "infer/text/embed.h"

#include <chrono>
#include <filesystem>

#include "api/outcome.h"
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
  int threads = processors();
  Isa isa = best_isa();
};

Status set(const std::string& name, const std::string& text, EmbeddingConfig& config) {
  if (name == "from") config.from = text;
  if (name == "data") config.data = text;
  if (name == "out") config.out = text;
  if (name == "format") {
    MANTISSA_ASSIGN(config.format, parse_format(text));
  }
  if (name == "sequence") {
    MANTISSA_ASSIGN(config.options.sequence, parse_integer(name, text, 3, 1 << 16));
  }
  if (name == "batch-size") {
    MANTISSA_ASSIGN(config.options.batch_size, parse_integer(name, text, 1, 1 << 16));
  }
  if (name == "threads") {
    MANTISSA_ASSIGN(const int64_t threads, parse_integer(name, text, 0, 256));
    if (threads > 0) config.threads = static_cast<int>(threads);
  }
  if (name == "isa") {
    MANTISSA_ASSIGN(config.isa, parse_isa(text));
  }
  return {};
}

Result<EmbeddingConfig> embedding_config(const Settings& settings) {
  MANTISSA_RETURN_IF_ERROR(check_known("embed", settings));
  EmbeddingConfig config;
  MANTISSA_ASSIGN(config.format, parse_format("fp32"));
  for (const auto& [name, text] : settings) MANTISSA_RETURN_IF_ERROR(set(name, text, config));
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

Status run_embedding(const Settings& settings, std::vector<std::string> sentences,
                     const EmbeddingObserver& observer, EmbeddingOutcome& outcome) {
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
  outcome.sentences = std::ssize(sentences);
  outcome.channels = vectors.channels;
  outcome.truncated = vectors.truncated;
  outcome.seconds = seconds.count();
  if (writes) MANTISSA_RETURN_IF_ERROR(write_vectors(config.out, vectors, outcome.sentences));
  outcome.vectors = std::move(vectors.numbers);
  return {};
}

}  // namespace

EmbeddingOutcome embed(const Settings& settings, const std::vector<std::string>& sentences,
                       const std::function<bool(int64_t)>& observer) {
  EmbeddingOutcome outcome;
  const Status status = run_embedding(settings, sentences, observer, outcome);
  return status.ok() ? outcome : refused<EmbeddingOutcome>(status.error());
}

}  // namespace mantissa
