#include "run/progress.h"

#include <utility>

namespace mantissa {

bool tell(const TrainObserver& observer, const TrainEvent& event) {
  return observer == nullptr || observer(event);
}

bool tell_done(const TrainObserver& observer, TrainEventKind kind, int64_t step, int64_t steps) {
  TrainEvent event;
  event.kind = kind;
  event.step = step;
  event.steps = steps;
  return tell(observer, event);
}

void tell_message(const TrainObserver& observer, std::string text) {
  if (text.empty()) return;
  TrainEvent event;
  event.kind = TrainEventKind::kMessage;
  event.message = std::move(text);
  tell(observer, event);
}

void tell_failure(const TrainObserver& observer, const char* what, const Status& done) {
  if (!done.ok()) tell_message(observer, std::string(what) + ": " + done.error().message);
}

Status may_start(const TrainObserver& observer) {
  if (tell_done(observer, TrainEventKind::kStarting, 0, 0)) return {};
  return make_error(ErrorCode::kInterrupted, "interrupted before the first step");
}

}  // namespace mantissa
