#include "run/memory_plan.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/sizes.h"

namespace mantissa {
namespace {

// A line of /proc/self/status in bytes.
int64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key + ":")) continue;
    int64_t kib = 0;
    std::istringstream(line.substr(key.size() + 1)) >> kib;
    return kib * 1024;
  }
  return 0;
}

std::string row(const MemoryItem& item) {
  char text[96];
  std::snprintf(text, sizeof text, "  %-34s %12s\n", item.name.c_str(),
                format_bytes(item.bytes).c_str());
  return text;
}

}  // namespace

int64_t MemoryPlan::peak_bytes() const {
  int64_t sum = 0;
  for (const MemoryItem& item : items) sum += item.bytes;
  return sum;
}

Status check_budget(const MemoryPlan& plan, int64_t budget_bytes) {
  if (budget_bytes <= 0 || plan.peak_bytes() <= budget_bytes) return {};
  std::vector<MemoryItem> largest = plan.items;
  std::sort(largest.begin(), largest.end(),
            [](const MemoryItem& a, const MemoryItem& b) { return a.bytes > b.bytes; });
  std::string consumers;
  for (size_t i = 0; i < std::min<size_t>(3, largest.size()); ++i) {
    consumers += (i == 0 ? "" : ", ") + largest[i].name + " " + format_bytes(largest[i].bytes);
  }
  return make_error(ErrorCode::kOverBudget, "needs " + format_bytes(plan.peak_bytes()) +
                                                " of memory (" + std::to_string(plan.peak_bytes()) +
                                                " bytes), over the budget of " +
                                                format_bytes(budget_bytes) +
                                                "; largest: " + consumers + "; " + plan.advice);
}

std::string limit_warning(const MemoryPlan& plan, int64_t held_bytes, const MemoryLimit& limit) {
  if (limit.source.empty() || held_bytes + plan.peak_bytes() <= limit.bytes) return "";
  const int64_t left_mib = (limit.bytes - held_bytes) >> 20;
  return "warning: needs " + format_bytes(plan.peak_bytes()) + " of memory beside " +
         format_bytes(held_bytes) + " that it has, and may take " + format_bytes(limit.bytes) +
         " in all (" + limit.source + "): the system may end it" +
         (left_mib < 1 ? ""
                       : "; --memory-budget " + std::to_string(left_mib) +
                             "MiB plans for that, or says what it takes at least");
}

std::string to_string(const MemoryPlan& plan) {
  std::string text = "memory\n";
  for (const MemoryItem& item : plan.items) text += row(item);
  text += row({"peak", plan.peak_bytes()});
  if (!plan.arena.empty()) text += "arena, at its fullest\n";
  for (const MemoryItem& item : plan.arena) text += row(item);
  if (!plan.consumers.empty()) text += "largest buffers\n";
  for (const MemoryItem& item : plan.consumers) text += row(item);
  return text;
}

int64_t resident_bytes() { return status_bytes("VmRSS"); }
int64_t peak_resident_bytes() { return status_bytes("VmHWM"); }

void reset_peak_resident() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
}

void release_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace mantissa
