// Reports on a division among stages, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "run/plan/run_plan.h"
#include "run/settings/run_config.h"

namespace mantissa {

// A pipeline of a run's plan, simulated with estimated times.
struct StagesReport {
  std::string text;  // a line for each stage
  nlohmann::ordered_json json;
  std::string diagram;  // of the first steps
  std::string svg;
};

Result<StagesReport> report_stages(const RunConfig& config, const RunPlan& plan);

}  // namespace mantissa
