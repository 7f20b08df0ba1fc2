// Lists the built-in networks.
#include <mantissa/choices.h>
#include <mantissa/mantissa.h>
#include <mantissa/runs.h>

#include <cstdio>

#if __has_include("base/result.h")
#error "the inside of Mantissa is open to those who use it"
#endif

int main() {
  for (const auto& [name, help] : mantissa::built_in_models()) {
    std::printf("%s: %s\n", name.c_str(), help.c_str());
  }
}
