#include "calls.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>

#include "errors.h"

namespace mantissa::python {
namespace {

namespace nb = nanobind;

std::atomic<int> calls = 0;
std::atomic<bool> ending = false, closed = false;
std::thread::id ender;  // set before `ending`

// A forked child has none of its parent's other threads.
void forget_calls() { calls = 0; }

}  // namespace

bool is_ending() { return ending && std::this_thread::get_id() != ender; }

void end_thread() {
  PyErr_SetNone(PyExc_SystemExit);
  throw nb::python_error();
}

EngineCall::EngineCall() {
  if (is_ending()) end_thread();
  ++calls;
  thread_ = PyEval_SaveThread();
}

EngineCall::~EngineCall() {
  // Nobody waited for this thread: it stays here until the process is gone.
  while (closed && is_ending()) pause();
  PyEval_RestoreThread(thread_);
  --calls;
}

void wait_for_calls() {
  const nb::object threads = nb::module_::import_("threading").attr("active_count")();
  // Memory that other threads hold is not given back.
  if (nb::cast<int>(threads) > 1) nb::set_leak_warnings(false);
  ender = std::this_thread::get_id();
  ending = true;
  bool interrupted = false;
  while (calls > 0 && !interrupted) {
    {
      const nb::gil_scoped_release free;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    interrupted = PyErr_CheckSignals() != 0;
  }
  closed = true;
  if (interrupted) throw nb::python_error();
}

void watch_the_end(nb::module_& module) {
  pthread_atfork(nullptr, nullptr, &forget_calls);
  module.def("_wait_for_calls", &wait_for_calls);
  nb::module_::import_("atexit").attr("register")(module.attr("_wait_for_calls"));
}

Owner::Turn::Turn(Owner& owner, const char* call) : owner_(owner) {
  const std::thread::id caller = std::this_thread::get_id();
  if (owner.depth_ > 0 && owner.thread_ != caller) {
    throw EngineError({Exit::kFailed, std::string("the ") + owner.what_ +
                                          " is busy: another thread is in " + owner.call_ +
                                          "(); wait until it is done"});
  }
  if (owner.depth_++ > 0) return;
  owner.thread_ = caller;
  owner.call_ = call;
}

Owner::Turn::~Turn() { --owner_.depth_; }

}  // namespace mantissa::python
