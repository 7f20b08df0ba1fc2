// Where a server listens, and the names by which clients may call it.
#pragma once

#include <string>
#include <vector>

namespace mantissa::cli {

// A socket that listens there; -1 if there is none. port 0: any that is free; the port is returned.
int listen_on(const std::string& host, int& port);

// Whether a Host header, with or without a port, names this machine: an address, localhost, or one
// of `names`. Otherwise another site's name could point here, and its pages could read the answers.
bool names_this_machine(const std::string& header, const std::vector<std::string>& names);

// The machine's own names: "box.example.org" and "box".
std::vector<std::string> machine_names();

}  // namespace mantissa::cli
