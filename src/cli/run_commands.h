// The commands that read the files of runs.
#pragma once

#include "cli/command_line/command_line.h"

namespace mantissa::cli {

int run_generate(const CommandLine& line);
int run_fill_mask(const CommandLine& line);
int run_translate(const CommandLine& line);
int run_embed(const CommandLine& line);
int run_verify(const CommandLine& line);
int run_report(const CommandLine& line);
int run_export(const CommandLine& line);
int run_statistics(const CommandLine& line);
// info with a path.
int run_import(const CommandLine& line);
int run_describe(const CommandLine& line);
// run.
int run_onnx_network(const CommandLine& line);

}  // namespace mantissa::cli
