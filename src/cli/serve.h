// A network over HTTP: the command that serves one, and --from http://HOST:PORT, which takes one.
#pragma once

#include <string>

#include "cli/command_line.h"

namespace mantissa::cli {

int run_serve(const CommandLine& line);

// Files that --from named by an address, for as long as this lives.
class Fetched {
 public:
  Fetched() = default;
  ~Fetched();
  Fetched(const Fetched&) = delete;
  Fetched& operator=(const Fetched&) = delete;

  // Where "from" is an address, fetches the parameters there, and without "model" the network; the
  // settings then name files. Returns the error, or "".
  std::string resolve(Settings& settings);

 private:
  std::string folder_;
};

}  // namespace mantissa::cli
