// Calls of the engine: without the interpreter's lock, counted, and by one thread at a time.
#pragma once

#include <nanobind/nanobind.h>

#include <thread>

namespace mantissa::python {

// Whether the interpreter is ending, and the calling thread is not the one that ends it. Such a
// thread must not take the interpreter's lock again: Python ends threads that ask for it, through
// all C++ that they are in.
bool is_ending();

// Raises SystemExit, which ends the calling thread without a word. With the interpreter's lock.
[[noreturn]] void end_thread();

// A call that the end of the interpreter waits for. While it lives the interpreter is free for
// other threads. If the interpreter is ending, the thread ends.
class EngineCall {
 public:
  EngineCall();
  ~EngineCall();
  EngineCall(const EngineCall&) = delete;
  EngineCall& operator=(const EngineCall&) = delete;

 private:
  PyThreadState* thread_;
};

// Does the work with the interpreter free for other threads.
template <typename Work>
auto released(const Work& work) {
  const EngineCall call;
  return work();
}

// At the interpreter's end: waits for the calls that threads are in. Those with a callback end
// with the step that is under way.
void wait_for_calls();
void watch_the_end(nanobind::module_& module);

// Lets one thread at a time use an object with state. A call from a callback of that thread's own
// call passes.
class Owner {
 public:
  explicit Owner(const char* what) : what_(what) {}

  // The calling thread's turn. Throws EngineError if another one has it. To be made and ended with
  // the interpreter's lock.
  class Turn {
   public:
    Turn(Owner& owner, const char* call);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Owner& owner_;
  };

 private:
  const char* what_;  // "trainer"
  std::thread::id thread_;
  const char* call_ = nullptr;  // the outermost one
  int depth_ = 0;
};

}  // namespace mantissa::python
