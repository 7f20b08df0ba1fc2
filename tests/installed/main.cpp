// Trains a few steps and prints the summary. Arguments: NAME=VALUE, settings of "train".
#include <mantissa/mantissa.h>

#include <cstdio>
#include <string>

#if __has_include("base/result.h")
#error "the inside of Mantissa is installed"
#endif

int main(int argc, char** argv) {
  mantissa::Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const auto equals = text.find('=');
    if (equals == std::string::npos) return 2;
    settings[text.substr(0, equals)] = text.substr(equals + 1);
  }
  const auto run = mantissa::train(settings);
  std::puts(run.ok() ? run->summary_json.c_str() : run.error().c_str());
  return static_cast<int>(run.failure().exit);
}
