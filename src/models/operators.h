// The operators that people build networks of, by name.
#pragma once

#include <span>
#include <string_view>

#include "graph/op.h"

namespace mantissa {

std::span<const Op* const> operators();

// Null for an unknown name.
const Op* find_operator(std::string_view name);

}  // namespace mantissa
