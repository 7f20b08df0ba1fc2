// Files that --from names by an address: http://HOST:PORT.
#pragma once

#include <string>

#include "cli/command_line/command_line.h"

namespace mantissa::cli {

// The fetched files, for as long as this lives.
class Fetched {
 public:
  Fetched() = default;
  ~Fetched();
  Fetched(const Fetched&) = delete;
  Fetched& operator=(const Fetched&) = delete;

  // If "from" is an address, fetches the parameters there, and if "model" is missing the network
  // too. The settings then name files. Returns the error, or "". Ctrl-C ends it: then
  // was_interrupted().
  std::string resolve(Settings& settings);
  bool was_interrupted() const { return was_interrupted_; }

 private:
  std::string folder_;
  bool was_interrupted_ = false;
};

}  // namespace mantissa::cli
