// The files of an exported network: its header and source, an example, and files to build them.
#pragma once

#include <string>
#include <vector>

#include "device/guess_text.h"
#include "device/sources.h"
#include "device/text/c_writer.h"
#include "graph/graph.h"
#include "infer/frozen_network.h"

namespace mantissa::device {

struct CNetwork {
  std::string prefix;
  const FrozenDescription* description;
  const Value* input;
  int64_t results;  // logits or numbers
  int exponent;     // of the results
  bool is_wide;     // they are int32; else mantissas of 8 bits, at `result`
  std::string result;
  GuessText guess;
  int64_t arena_bytes;
  int64_t constant_bytes;
  const CWriter* writer;
};

std::vector<SourceFile> project_files(const CNetwork& network);

}  // namespace mantissa::device
