// Settings of data, which load_data() has, too.
#pragma once

#include <string>

#include "base/result.h"
#include "data/datasets/dataset.h"
#include "mantissa/mantissa.h"
#include "run/settings/run_config.h"

namespace mantissa {

struct DescribeConfig {
  std::string data;
  DataOptions options;
  std::string contact_sheet;
  RunConfig run = default_run_config();
};
Result<DescribeConfig> describe_config(const Settings& settings);

}  // namespace mantissa
