// The machine, and the files of a run.
#include "base/sizes.h"
#include "run/settings/table/rows.h"

namespace mantissa {
namespace {

using namespace traits;

constexpr int64_t kLongest = int64_t{1} << 40;  // steps

const Setting kMachineRows[] = {
    {"isa", "instruction set: auto, scalar, avx2, avxvnni, avx512vnni, amx; changes no result",
     "auto", [](S, S text, Config& c) { return assign(parse_isa(text), c.isa); },
     kMachine | kInBench | kOfPredictions, print_by<isa_name, &Config::isa>},
    {"memory-budget",
     "most memory to take (512MiB, 2GiB): values are computed again in the backward pass instead "
     "of kept until it fits; refused if it cannot; changes no result",
     "", parse_by<parse_bytes, &Config::memory_budget>, kMachine | kInBench,
     [](const Config& c) {
       return c.memory_budget > 0 ? std::to_string(c.memory_budget) + "B" : std::string();
     }},
    {"recompute",
     "what the backward pass computes again: auto (what fits the memory budget in the least time), "
     "none, all (the least memory), or literal (the rule of the Recompute document); changes no "
     "result",
     "auto", parse_by<parse_recompute_mode, &Config::recompute>, kMachine | kInBench,
     print_by<recompute_mode_name, &Config::recompute>},
    {"plan",
     "how the fastest plan within the memory budget is found: search (in about a second), or exact "
     "(proven, by the solver Cbc; minutes where more than some fifty values are computed, as in "
     "resnet20); changes no result",
     "search", parse_by<parse_planner, &Config::planner>, kMachine | kInBench,
     print_by<planner_name, &Config::planner>},
    {"allow-inversion",
     "let batch norm's backward pass compute what it reads from its output where that saves memory "
     "or computing again; other results (the format's key inversion=yes)",
     "false", parse_switch<&Config::allow_inversion>, kSwitch | kMachine | kInBench,
     print_switch<&Config::allow_inversion>},
    {"profile",
     "what this machine takes for what it does, for planning: a file of mantissa profile, or "
     "builtin (left out: the one that mantissa profile keeps, if it has been run); changes no "
     "result",
     "", parse_text<&Config::profile_name>, kMachine | kInBench, print_text<&Config::profile_name>},
    {"checkpoint-every", "steps between checkpoints (0: once an epoch)", "0",
     parse_whole<0, kLongest, &Config::checkpoint_every>, kRun,
     print_whole<&Config::checkpoint_every>},
    {"hash-every", "steps between hashes of the state, for verify (0: none; the last step always)",
     "100", parse_whole<0, kLongest, &Config::hash_every>, kRun, print_whole<&Config::hash_every>},
    {"statistics", "keep histograms of every tensor's bits, for mantissa statistics", "false",
     parse_switch<&Config::statistics>, kSwitch | kRun, print_switch<&Config::statistics>},
    {"out", "folder for the results", "", parse_text<&Config::out>, kInQuantize,
     print_text<&Config::out>},
    {"tensorboard", "folder for TensorBoard's event files; the run has one in it, called as --out",
     "", parse_text<&Config::tensorboard>, kInQuantize, print_text<&Config::tensorboard>},
    {"trace",
     "file for what the stages of a pipeline did when in the first steps, as Perfetto and Chrome "
     "show it; report shows OUT/trace.json",
     "", parse_text<&Config::trace>, kIfGiven | kMachine, print_text<&Config::trace>},
    {"trace-steps", "steps in that file", "20", parse_whole<1, 100000, &Config::trace_steps>,
     kIfGiven | kMachine,
     [](const Config& c) { return c.trace.empty() ? "" : std::to_string(c.trace_steps); }},
    {"resume", "go on from the last checkpoint in --out", "false", parse_switch<&Config::resume>,
     kSwitch | kInQuantize, print_switch<&Config::resume>},
    {"overwrite", "replace a run that --out already holds", "false",
     parse_switch<&Config::overwrite>, kSwitch | kInQuantize, print_switch<&Config::overwrite>},
};

}  // namespace

std::span<const Setting> machine_rows() { return kMachineRows; }

}  // namespace mantissa
