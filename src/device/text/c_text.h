// Pieces of C as text: names, tables of numbers, structures.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mantissa::device {

// A name of the network as a C identifier: other characters become '_'. Two names of a program may
// become one: callers add a number.
std::string c_name(std::string_view name);

inline std::string c_number(int64_t number) { return std::to_string(number); }

// The bits of a double, as a C constant.
inline std::string c_real(double number) {
  return "UINT64_C(" + std::to_string(std::bit_cast<uint64_t>(number)) + ")";
}

// A C string literal.
std::string c_string(std::string_view text);

// "static const TYPE NAME[N] = {...};", in lines of up to 100 characters. Without numbers: one
// zero.
std::string c_table(std::string_view type, std::string_view name, std::span<const int64_t> numbers);

// Members of a structure and their values, in their order.
using CMembers = std::vector<std::pair<std::string_view, std::string>>;

// "{.member = value, ...}", lines indented by `indent` if there are several.
std::string c_structure(const CMembers& members, int indent);

}  // namespace mantissa::device
