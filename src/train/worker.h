// Runs of several processes. The first one is the run: it has the settings, the data, the loop and
// the files. The others work on a stage of its network, or of a replica of it, and need nothing but
// messages.
#pragma once

#include "base/result.h"
#include "run/plan/run_plan.h"
#include "run/settings/run_config.h"
#include "runtime/stages/stage_messages.h"
#include "transport/mpi_transport.h"

namespace mantissa {

// Whether stages and replicas of the settings make as many processes as there are.
Status divide_processes(int processes, RunConfig& config);

// The processes of a run; without a transport: this one alone.
Processes processes_of(const RunConfig& config, Transport* transport);

// Tells the other processes the work. The plan is of these settings.
void set_up_workers(const RunConfig& config, const RunPlan& plan, const Processes& processes);
// Lets them end.
void end_workers(Transport& transport);

// Works for the first process until that one ends the work.
// `named`: the same, if it must know positions.
Status run_worker(Transport& transport, MpiTransport* named);

// Reports the position of a process, for messages about a silent one: its stage, which is known
// before the network is; and the step and the instruction too.
MpiTransport::Describe describe_stages(const Processes& processes);
MpiTransport::Describe describe_positions(const Graph& graph, const Program& program,
                                          const Processes& processes);

}  // namespace mantissa
