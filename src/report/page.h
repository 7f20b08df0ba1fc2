// The page around a report's sections.
#pragma once

#include <string>

namespace mantissa {

// A whole HTML document with style and script inside. It loads nothing: its policy forbids it.
std::string page(const std::string& title, const std::string& body);

}  // namespace mantissa
