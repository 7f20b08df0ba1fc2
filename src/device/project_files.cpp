#include "device/project_files.h"

#include "device/build_files.h"
#include "device/text/c_text.h"
#include "device/text/words.h"

namespace mantissa::device {
namespace {

Words words_of(const CNetwork& n) {
  const bool pixels = n.input->type == DataType::kUint8;
  const FrozenDescription& d = *n.description;
  return {{"header", "#include \"" + n.prefix + ".h\"\n"},
          {"p", n.prefix},
          {"P", upper_case(n.prefix)},
          {"model", d.network.name},
          {"format", to_string(d.format)},
          {"sha256", d.weights_sha256},
          {"input_type", pixels ? "uint8_t" : "int16_t"},
          {"input_what",
           pixels ? "Pixels " + to_string(n.input->shape) + ": height, width, channels"
                  : "Numbers: mantissas in units of 2^" + std::to_string(n.input->exponent)},
          {"inputs", std::to_string(n.input->shape.count())},
          {"results", std::to_string(n.results)},
          {"exponent", std::to_string(n.exponent)},
          {"units", units_text(d)},
          {"arena", std::to_string((n.arena_bytes + 7) / 8 * 8)},
          {"constants", std::to_string(n.constant_bytes)}};
}

constexpr const char* kHeader =
    R"C(// The network @model@ (@format@) for machines without an operating system, written by Mantissa. Its
// numbers are those of the run with weights_sha256
// @sha256@.
//
// It calls no library, allocates nothing, and computes without floating point. All of its memory is
// a @p@_memory and the stack; several may be used at once.
#ifndef @P@_H
#define @P@_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  @P@_INPUTS = @inputs@,
  @P@_RESULTS = @results@,
  // A result is its mantissa times 2^this.
  @P@_RESULT_EXPONENT = @exponent@,
  @P@_MEMORY_BYTES = @arena@,
  // Weights and tables, in read-only memory.
  @P@_CONSTANT_BYTES = @constants@
};

// Its contents between two calls do not matter.
typedef union @p@_memory {
  int64_t aligned;
  uint8_t bytes[@P@_MEMORY_BYTES];
} @p@_memory;

// @input_what@. Results are logits, or the predicted number.
@units@void @p@_predict(@p@_memory* memory, const @input_type@ input[@P@_INPUTS],
                 int32_t results[@P@_RESULTS]);

@guess@
// Names of the classes or labels, in their order; the last is null.
extern const char* const @p@_labels[];

#ifdef __cplusplus
}
#endif

#endif
)C";

constexpr const char* kExample =
    R"C(// Reads inputs from the standard input, one after the other, as the network takes them (in the byte
// order of this machine), and prints the results of each, as whole numbers.
#include <stdio.h>

@header@
int main(void) {
  static @p@_memory memory;
  static @input_type@ input[@P@_INPUTS];
  int32_t results[@P@_RESULTS];
  while (fread(input, sizeof(input), 1, stdin) == 1) {
    @p@_predict(&memory, input, results);
    for (int i = 0; i < @P@_RESULTS; ++i) {
      printf("%s%ld", i == 0 ? "" : " ", (long)results[i]);
    }
    printf("\n");
  }
  return 0;
}
)C";

// A list of the folder's files. The command overwrites only folders that have one.
constexpr const char* kRecord =
    R"J({"kind": "mantissa c 1", "prefix": "@p@", "weights_sha256": "@sha256@"}
)J";

// The results, if they are mantissas of 8 bits.
std::string copied_results(const CNetwork& n) {
  if (n.is_wide) return "";
  return "  for (int i = 0; i < " + std::to_string(n.results) + "; ++i) results[i] = (" + n.result +
         ")[i];\n";
}

std::string header_text(const CNetwork& n, Words words) {
  words["guess"] = with_words(n.guess.declarations, words);
  return with_words(kHeader, words);
}

std::string source(const CNetwork& n, const Words& words) {
  const CWriter& writer = *n.writer;
  std::string text = "@header@\n";
  for (const std::string& header : writer.headers()) text += "#include \"" + header + "\"\n";
  text = with_words(text, words) + "\n" + writer.tables();
  text += with_words(R"C(
void @p@_predict(@p@_memory* memory, const @input_type@ input[@P@_INPUTS],
                 int32_t results[@P@_RESULTS]) {
  uint8_t* const arena = memory->bytes;
)C",
                     words);
  text += writer.body() + copied_results(n);
  text += with_words(R"C(}

)C" + n.guess.definitions +
                         "\nconst char* const @p@_labels[] = {",
                     words);
  for (const std::string& name : n.description->class_names)
    text += "\n    " + c_string(name) + ",";
  return text + "\n    0};\n";
}

}  // namespace

std::vector<SourceFile> project_files(const CNetwork& n) {
  const std::set<std::string>& headers = n.writer->headers();
  const Words words = words_of(n);
  std::vector<SourceFile> files =
      sources_of(std::vector<std::string>(headers.begin(), headers.end()));
  files.push_back({n.prefix + ".h", header_text(n, words)});
  files.push_back({n.prefix + ".c", source(n, words)});
  files.push_back({"example.c", with_words(kExample, words)});
  append_build_files(n.prefix, n.prefix, "example", files);
  files.push_back({"export.json", with_words(kRecord, words)});
  return files;
}

}  // namespace mantissa::device
