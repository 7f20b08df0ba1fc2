// The operators for building networks, by name: the library's own, and the ones that a program
// added.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace mantissa {

std::vector<const Op*> operators();

// Null for an unknown name.
const Op* find_operator(std::string_view name);

// Added operators stay as long as the program runs: graphs point to operators. The name must be
// new.
void add_operator(std::shared_ptr<const Op> op);

}  // namespace mantissa
