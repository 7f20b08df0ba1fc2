#include "transport/mpi_transport.h"

#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/system/shared_library.h"
#include "base/system/thread_pool.h"

namespace mantissa {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kHeartbeat = 0, kClose = 1;  // tags; others have their own
constexpr milliseconds kBeat{1000};
// A failed process has this long to say so, and to save its work.
constexpr seconds kGrace{5}, kHeadStart{2};
constexpr int kAborted = 1;

Result<const MpiFunctions*> load_mpi() {
  static SharedLibrary library("libmantissa-mpi.so");
  GetMpiFunctions* const get = library.find(kMpiFunctionsSymbol);
  if (get == nullptr) {
    return failed("several processes need MPI: " + library.error() +
                  " (install Open MPI, on Debian libopenmpi-dev and openmpi-bin, and build again)");
  }
  return get();
}

int number_of(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

bool MpiTransport::is_launched() {
  return std::ranges::any_of(
      std::array{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI2_RANK"},
      [](const char* name) { return std::getenv(name) != nullptr; });
}

int MpiTransport::launched_process() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI2_RANK"}) {
    if (std::getenv(name) != nullptr) return number_of(name);
  }
  return 0;
}

int MpiTransport::processes_here() {
  const int launched = number_of("OMPI_COMM_WORLD_LOCAL_SIZE");
  return std::max({1, launched, launched > 0 ? 0 : number_of("SLURM_NTASKS_PER_NODE")});
}

MpiTransport::MpiTransport(const MpiFunctions& mpi, milliseconds deadline)
    : mpi_(mpi), deadline_(deadline) {}

Result<std::unique_ptr<MpiTransport>> MpiTransport::create(milliseconds deadline) {
  MANTISSA_ASSIGN(const MpiFunctions* const mpi, load_mpi());
  std::unique_ptr<MpiTransport> made(new MpiTransport(*mpi, deadline));
  std::promise<Status> begun;
  std::future<Status> result = begun.get_future();
  auto shared = std::make_shared<std::promise<Status>>(std::move(begun));
  MpiTransport* const self = made.get();
  made->thread_ = try_thread([self, shared] { self->work(std::move(*shared)); });
  if (!made->thread_.joinable()) return failed("the system gives no thread for MPI");
  MANTISSA_RETURN_IF_ERROR(result.get());
  return made;
}

MpiTransport::~MpiTransport() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MpiTransport::expect(const Stream& stream) {
  {
    const std::lock_guard lock(mutex_);
    new_streams_.push_back(stream);
  }
  wake_.notify_all();
}

void MpiTransport::send(int to, int tag, Message message) {
  bytes_sent_.fetch_add(static_cast<int64_t>(message.size()), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back({to, tag, std::move(message), nullptr});
  }
  wake_.notify_all();
}

Result<Message> MpiTransport::receive(int from, int tag) {
  wake_.notify_all();  // it tests more often for those who wait
  return inbox_.take(from, tag);
}

void MpiTransport::close() {
  inbox_.close("the run was stopped");
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
}

// Both write the file at once: a process may die before the next beat.
void MpiTransport::set_describe(Describe describe) {
  const std::lock_guard lock(mutex_);
  describe_ = std::move(describe);
  write_status();
}

void MpiTransport::set_status_file(std::string path) {
  const std::lock_guard lock(mutex_);
  status_file_ = std::move(path);
  write_status();
}

Status MpiTransport::join() {
  // The thread sleeps by itself. In each of its tests Open MPI gives the processor away if
  // processes share cores, which costs a time slice each.
  setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
  const int error = mpi_.begin(&process_, &processes_);
  if (error == 0) return {};
  return failed("MPI does not start (error " + std::to_string(error) + ")");
}

void MpiTransport::work(std::promise<Status> begun) {
  // Sleeps may be as short as they are asked for.
  prctl(PR_SET_TIMERSLACK, 1000UL);
  Status joined = join();
  const bool ok = joined.ok();
  heard_.assign(static_cast<size_t>(processes_), Clock::now());
  positions_.assign(static_cast<size_t>(processes_), {});
  begun.set_value(std::move(joined));
  if (!ok) return;
  for (int p = 0; p < processes_; ++p) {
    if (p == process_) continue;
    receives_.push_back({{p, kHeartbeat, sizeof(Position), 1}, {}});
    receives_.push_back({{p, kClose, 1, 1}, {}});
  }
  for (Receives& receives : receives_) {
    post(receives, {Message(static_cast<size_t>(receives.stream.most_bytes)), nullptr});
  }
  next_beat_ = Clock::now();
  exchange();
  leave();
}

// Until the transport ends and all is sent.
void MpiTransport::exchange() {
  Clock::time_point moved = Clock::now();
  while (true) {
    bool progress = take_orders();
    progress |= test_sends();
    progress |= test_receives();
    const auto now = Clock::now();
    if (now >= next_beat_) {
      check_peers(now);
      beat();
    }
    if (failed_ && now - failed_at_ > kGrace) return;
    {
      const std::lock_guard lock(mutex_);
      if (ending_ && (failed_ || (orders_.empty() && sending_.empty()))) return;
    }
    if (progress) moved = now;
    if (!progress) sleep(now - moved);
  }
}

// An eighth of the time in which nothing came.
void MpiTransport::sleep(Clock::duration quiet) {
  const bool awaited = inbox_.is_awaited() || !sending_.empty();
  const auto most = awaited ? microseconds(200) : microseconds(1000);
  const auto nap = std::clamp(std::chrono::duration_cast<microseconds>(quiet / 8),
                              microseconds(awaited ? 20 : 200), most);
  std::unique_lock lock(mutex_);
  if (!orders_.empty() || !new_streams_.empty() || (closing_ && !told_close_)) return;
  wake_.wait_for(lock, nap);
}

bool MpiTransport::take_orders() {
  std::vector<Stream> streams;
  std::deque<Sending> orders;
  bool closes = false;
  {
    const std::lock_guard lock(mutex_);
    streams.swap(new_streams_);
    orders.swap(orders_);
    closes = closing_ && !std::exchange(told_close_, closing_);
  }
  for (const Stream& stream : streams) {
    Receives& receives = receives_.emplace_back(Receives{stream, {}});
    for (int i = 0; i < stream.ahead; ++i) {
      post(receives, {Message(static_cast<size_t>(stream.most_bytes)), nullptr});
    }
  }
  if (closes) {
    for (int p = 0; p < processes_; ++p) {
      if (p != process_) orders.push_back({p, kClose, Message(1), nullptr});
    }
  }
  for (Sending& order : orders) {
    if (order.message.size() > INT_MAX) {
      fail("a message of more than 2 GiB");
      continue;
    }
    sending_.push_back(std::move(order));
    Sending& sending = sending_.back();
    const int error = mpi_.send(sending.message.data(), static_cast<int>(sending.message.size()),
                                sending.to, sending.tag, &sending.request);
    if (error == 0) continue;
    sending_.pop_back();
    fail(error);
  }
  return !streams.empty() || !orders.empty();
}

bool MpiTransport::test_sends() {
  bool progress = false;
  std::erase_if(sending_, [&](Sending& sending) {
    bool done = false;
    int count = 0;
    const int error = mpi_.test(&sending.request, &done, &count);
    if (error != 0) fail(error);
    progress |= done;
    return done || error != 0;
  });
  return progress;
}

bool MpiTransport::test_receives() {
  bool progress = false;
  for (Receives& receives : receives_) {
    while (!receives.posted.empty()) {
      Receive& first = receives.posted.front();
      bool done = false;
      int count = 0;
      const int error = mpi_.test(&first.request, &done, &count);
      if (error != 0) {
        fail(error);
        receives.posted.pop_front();
        break;
      }
      if (!done) break;
      progress = true;
      Receive received = std::move(first);
      receives.posted.pop_front();
      // Large buffers go to whoever takes the message, small ones are copied.
      Message message(received.buffer.begin(), received.buffer.begin() + count);
      post(receives, {std::move(received.buffer), nullptr});
      arrived(receives.stream, std::move(message));
    }
  }
  return progress;
}

void MpiTransport::post(Receives& receives, Receive receive) {
  receives.posted.push_back(std::move(receive));
  Receive& posted = receives.posted.back();
  const int error = mpi_.receive(posted.buffer.data(), static_cast<int>(posted.buffer.size()),
                                 receives.stream.from, receives.stream.tag, &posted.request);
  if (error == 0) return;
  receives.posted.pop_back();
  fail(error);
}

void MpiTransport::arrived(const Stream& stream, Message message) {
  heard_[stream.from] = Clock::now();
  if (stream.tag == kHeartbeat) {
    const std::lock_guard lock(mutex_);
    if (message.size() == sizeof(Position)) {
      std::memcpy(&positions_[stream.from], message.data(), message.size());
    }
  } else if (stream.tag == kClose) {
    inbox_.close("process " + std::to_string(stream.from) + " stopped the run");
  } else {
    inbox_.deliver(stream.from, stream.tag, std::move(message));
  }
}

// Tells the others that this process lives, and where it is in its work.
void MpiTransport::beat() {
  next_beat_ = Clock::now() + std::min(kBeat, deadline_ / 4);
  if (failed_) return;
  const Position position = this->position();
  const std::lock_guard lock(mutex_);
  positions_[process_] = position;
  for (int p = 0; p < processes_; ++p) {
    if (p == process_) continue;
    Message message(sizeof position);
    std::memcpy(message.data(), &position, sizeof position);
    orders_.push_back({p, kHeartbeat, std::move(message), nullptr});
  }
  write_status();
}

// Caller holds the mutex.
std::string MpiTransport::where(int process) const {
  const std::string name = "process " + std::to_string(process);
  return describe_ ? name + describe_(process, positions_[process]) : name;
}

void MpiTransport::check_peers(Clock::time_point now) {
  if (failed_) return;
  for (int p = 0; p < processes_; ++p) {
    if (p == process_ || now - heard_[p] <= deadline_) continue;
    std::string who;
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;  // the others may be gone before
      who = where(p);
    }
    return fail(who + " has not been heard of for " +
                std::to_string(std::chrono::duration_cast<seconds>(now - heard_[p]).count()) +
                " s: it is dead, frozen or cut off");
  }
}

// Caller holds the mutex.
void MpiTransport::write_status() const {
  if (process_ > 0 || status_file_.empty()) return;
  // It is for messages alone: the run goes on without it, and nothing waits for a disk.
  const std::string fresh = status_file_ + ".new";
  std::ofstream file(fresh);
  for (int p = 0; p < processes_; ++p) file << where(p) << "\n";
  file.close();
  if (file) std::rename(fresh.c_str(), status_file_.c_str());
}

void MpiTransport::fail(int error) {
  std::array<char, 1024> text{};
  mpi_.describe(error, text.data());
  fail(std::string("MPI failed: ") + text.data());
}

void MpiTransport::fail(const std::string& why) {
  if (failed_) return;
  failed_ = true;
  failed_at_ = Clock::now();
  inbox_.close(why);
}

// Ends MPI after the last message, or, after a failure, all processes.
void MpiTransport::leave() {
  if (!failed_) {
    for (Receives& receives : receives_) {
      for (Receive& receive : receives.posted) mpi_.cancel(&receive.request);
    }
    mpi_.end();
    return;
  }
  // A process that ends by itself says why first. The launcher then ends the others, and need not
  // wait for MPI if the file is gone.
  {
    const std::lock_guard lock(mutex_);
    if (process_ == 0 && !status_file_.empty()) std::remove(status_file_.c_str());
    if (ending_) {
      // The first process tells it best: it comes first.
      if (process_ > 0) std::this_thread::sleep_for(kHeadStart);
      return;
    }
  }
  // The process hangs in something else. MPI_Abort may hang, too.
  std::thread last = try_thread([] {
    std::this_thread::sleep_for(kGrace);
    std::_Exit(kAborted);
  });
  if (last.joinable()) last.detach();
  mpi_.abort(kAborted);
}

}  // namespace mantissa
