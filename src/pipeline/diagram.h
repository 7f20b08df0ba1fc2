// Schedules drawn as the document's figure 6: a row for each stage, time to the right.
#pragma once

#include <string>

#include "base/result.h"
#include "pipeline/simulate.h"
#include "pipeline/trace.h"

namespace mantissa::pipeline {

// Text with a column for each unit of time: M forward, B grad_input (with grad_weights if they take
// no time of their own), G grad_weights, W update. Numbers count from 1: micro-batches, and after a
// W updates. A point is idle time. At most `columns` columns.
Result<std::string> diagram(const Schedule& schedule, const StageTimes& times, int columns);

// Updates of each stage in a drawing of the first steps.
constexpr int kDrawnUpdates = 3;

// A width that shows this many updates of each stage: by then each has had as many micro-batches in
// flight as it may, if the schedule is long enough. A line says so if a width of a thousand columns
// is not enough.
Result<std::string> diagram_of_updates(const Schedule& schedule, const StageTimes& times,
                                       int updates);

// The same as a picture, in true proportions.
std::string diagram_svg(const Schedule& schedule, const Simulation& simulation, int updates);

// A trace as such a picture.
std::string timeline_svg(const Trace& trace);

}  // namespace mantissa::pipeline
