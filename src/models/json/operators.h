// The operators that people build networks of, by name: those of the library, and those that a
// program added.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace mantissa {

std::vector<const Op*> operators();

// Null for an unknown name.
const Op* find_operator(std::string_view name);

// For as long as the program runs: graphs point to operators. Its name is new.
void add_operator(std::shared_ptr<const Op> op);

}  // namespace mantissa
