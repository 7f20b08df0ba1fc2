// Results of commands, printed: for people, with --quiet in short, with --json for programs.
#pragma once

#include "cli/command_line/command_line.h"
#include "mantissa/language.h"
#include "mantissa/mantissa.h"
#include "mantissa/onnx.h"
#include "mantissa/runs.h"

namespace mantissa::cli {

void print_evaluation(const CommandLine& line, const Evaluation& evaluation);
void print_predictions(const CommandLine& line, const Predictions& predictions);
// Keeps line feeds and tabs, and drops all other characters that a terminal would obey.
std::string printable_lines(const std::string& text);
// "end", "length" or "stopped".
const char* finish_name(const GeneratedText& generated);

void print_generated(const CommandLine& line, const GeneratedText& generated);
void print_masks(const CommandLine& line, const FilledMasks& filled);
void print_translations(const CommandLine& line, const Translations& translations);
void print_embeddings(const CommandLine& line, const Embeddings& embeddings);
void print_exported(const CommandLine& line, const ExportedModel& model);
void print_imported(const CommandLine& line, const ImportedModel& model);
void print_blocks(const CommandLine& line, const LanguageModelInBlocks& model);
void print_data(const CommandLine& line, const DataDescription& data);
void print_plan(const CommandLine& line, const Plan& plan);
void print_simulation(const CommandLine& line, const Simulation& simulation);
void print_profile(const CommandLine& line, const MeasuredProfile& profile);
void print_bench(const CommandLine& line, const BenchReport& bench);
void print_comparison(const CommandLine& line, const Comparison& comparison);
void print_written_report(const CommandLine& line, const WrittenReport& report);
void print_statistics(const CommandLine& line, const RunStatistics& statistics);
void print_description(const CommandLine& line, const PathDescription& description);
void print_onnx_outputs(const CommandLine& line, const OnnxOutputs& outputs);

}  // namespace mantissa::cli
