// Processes that mpirun, srun or another launcher of MPI started.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/inbox.h"
#include "transport/mpi_functions.h"
#include "transport/transport.h"

namespace mantissa {

// A thread of its own makes all MPI calls. It sleeps between polls. The longer nothing came, the
// longer it sleeps, so that waiting leaves the processor to the computation. Every process sends a
// sign of life once a second; the run ends if one is silent for longer than the deadline.
class MpiTransport : public Transport {
 public:
  // Whether an MPI launcher started this process, and its rank.
  static bool is_launched();
  static int launched_process();

  // How many processes of the run share this machine, as far as the launcher says; at least 1.
  static int processes_here();

  // Joins the others. Fails if MPI is not installed, or does not start.
  static Result<std::unique_ptr<MpiTransport>> create(std::chrono::milliseconds deadline);
  // Waits until the other processes end, too. Not after a failure: the launcher then ends them as
  // soon as this process is gone.
  ~MpiTransport() override;

  int process() const override { return process_; }
  int processes() const override { return processes_; }
  void expect(const Stream& stream) override;
  void send(int to, int tag, Message message) override;
  Result<Message> receive(int from, int tag) override;
  void close() override;
  int64_t bytes_sent() const override { return bytes_sent_.load(std::memory_order_relaxed); }

  // Says where a process is.
  using Describe = std::function<std::string(int process, const Position&)>;
  void set_describe(Describe describe);
  // Once a second the first process writes a file that says where each process is. It removes the
  // file when it gives up.
  void set_status_file(std::string path);

 private:
  using Clock = std::chrono::steady_clock;

  struct Receive {
    Message buffer;
    void* request = nullptr;
  };
  struct Receives {  // of a stream, in the order of their messages
    Stream stream;
    std::deque<Receive> posted;
  };
  struct Sending {
    int to = 0, tag = 0;
    Message message;
    void* request = nullptr;
  };

  MpiTransport(const MpiFunctions& mpi, std::chrono::milliseconds deadline);
  void work(std::promise<Status> begun);
  Status join();
  void exchange();
  bool take_orders();
  bool test_sends();
  bool test_receives();
  void post(Receives& receives, Receive receive);
  void arrived(const Stream& stream, Message message);
  void beat();
  void check_peers(Clock::time_point now);
  void write_status() const;
  std::string where(int process) const;
  void sleep(Clock::duration quiet);
  void fail(int error);
  void fail(const std::string& why);
  void leave();

  const MpiFunctions& mpi_;
  std::chrono::milliseconds deadline_;
  int process_ = 0, processes_ = 1;
  Inbox inbox_;
  std::atomic<int64_t> bytes_sent_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Sending> orders_;       // not begun
  std::vector<Stream> new_streams_;  // not posted
  Describe describe_;
  std::string status_file_;
  std::vector<Position> positions_;  // of each process, as last reported
  bool closing_ = false, ending_ = false;

  // The thread's own.
  std::deque<Receives> receives_;  // MPI writes into them: they stay where they are
  std::deque<Sending> sending_;
  std::vector<Clock::time_point> heard_;  // when each process was last heard of
  Clock::time_point next_beat_;
  bool failed_ = false, told_close_ = false;
  Clock::time_point failed_at_;

  std::thread thread_;
};

}  // namespace mantissa
