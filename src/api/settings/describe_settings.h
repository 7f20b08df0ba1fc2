// Settings of data, which load_data() has, too.
#pragma once

#include <string>

#include "base/result.h"
#include "mantissa/mantissa.h"
#include "run/settings/run_config.h"

namespace mantissa {

struct DescribeConfig {
  RunConfig run = default_run_config();  // with the data set, and how it is read
  std::string contact_sheet;
};
Result<DescribeConfig> describe_config(const Settings& settings);

}  // namespace mantissa
