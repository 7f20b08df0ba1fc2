// Language models: text from a trained network, and vectors of sentences.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mantissa/export.h"
#include "mantissa/mantissa.h"
#include "mantissa/outcome.h"

namespace mantissa {

struct GeneratedText {
  std::string prompt, text;  // the text follows the prompt
};

// Generates text that continues "prompt", with the language model "checkpoint": a run, or its
// model.safetensors file. It draws "length" tokens at "temperature" among "top-k" by "seed". The
// observer is told each piece as soon as it is there, and returns false to stop.
MANTISSA_EXPORT Outcome<GeneratedText> generate(
    const Settings& settings,
    const std::function<bool(const std::string& text)>& observer = nullptr);

struct FilledMasks {
  struct Guess {
    std::string token;
    double probability = 0;
  };
  std::vector<std::vector<Guess>> masks;  // for each [MASK], likeliest first
};

// Guesses the token at each "[MASK]" of "text", with the masked language model of a run,
// "checkpoint". Returns "top" guesses for each.
MANTISSA_EXPORT Outcome<FilledMasks> fill_mask(const Settings& settings);

struct Translations {
  std::vector<std::string> sources, translations;  // one for each sentence
  int64_t truncated = 0;                           // sentences longer than the network reads
  std::vector<std::string> notes;                  // notes for the user, a line each
  double seconds = 0;                              // of the computation
};

// Translates sentences with the network of a run, "checkpoint", by a beam search of "beam"
// hypotheses. The sentences are the given ones, or "text", or the lines of the file "data". With
// "out" the translations are written to that file, one on each line. The observer is shown how many
// are done; if it returns false, it stops (kInterrupted).
MANTISSA_EXPORT Outcome<Translations> translate(const Settings& settings,
                                                const std::vector<std::string>& sentences = {},
                                                const Observer& observer = nullptr);

struct Embeddings {
  int64_t sentences = 0, channels = 0;
  int64_t truncated = 0;       // sentences that were longer than "sequence"
  double seconds = 0;          // of the computation
  std::vector<float> vectors;  // [sentences, channels], each of length 1
};

// Vectors of sentences, from an encoder. "from" names a file that import_model wrote of one, or its
// folder; "format", "sequence", "batch-size", "threads" and "isa" say how. The sentences are the
// given ones, or, if there are none, the lines of the file "data". With "out" the vectors are
// written to that file, .npy or .npz. The observer is told how many are done, and returns false to
// stop.
MANTISSA_EXPORT Outcome<Embeddings> embed(
    const Settings& settings, const std::vector<std::string>& sentences = {},
    const std::function<bool(int64_t done)>& observer = nullptr);

struct LanguageModelDescription {
  // Architecture, sizes, types of tensors, tokenizer, chat template, and each key or tensor that
  // asks for something that is not there: a line each. Empty: the path is no language model's.
  std::vector<std::string> lines;
};

// What the file of a language model is: a GGUF file, or a folder with config.json. Only its header
// is read. Errors: damaged files.
MANTISSA_EXPORT Outcome<LanguageModelDescription> describe_language_model(const std::string& path);

}  // namespace mantissa
