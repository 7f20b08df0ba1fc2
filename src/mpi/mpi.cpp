// The library that src/transport loads to reach MPI.
#include <mpi.h>

#include <new>

#include "transport/mpi_functions.h"

namespace {

int begin(int* process, int* processes) {
  int provided = 0;
  int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (error != MPI_SUCCESS) return error;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  error = MPI_Comm_rank(MPI_COMM_WORLD, process);
  return error != MPI_SUCCESS ? error : MPI_Comm_size(MPI_COMM_WORLD, processes);
}

// A request on the heap, if it could be begun.
template <typename Begin>
int keep(const Begin& begin_request, void** request) {
  auto* const made = new (std::nothrow) MPI_Request;
  if (made == nullptr) return MPI_ERR_NO_MEM;
  const int error = begin_request(made);
  if (error != MPI_SUCCESS) {
    delete made;
    return error;
  }
  *request = made;
  return MPI_SUCCESS;
}

int send(const void* bytes, int count, int to, int tag, void** request) {
  return keep(
      [&](MPI_Request* made) {
        return MPI_Isend(bytes, count, MPI_BYTE, to, tag, MPI_COMM_WORLD, made);
      },
      request);
}

int receive(void* bytes, int count, int from, int tag, void** request) {
  return keep(
      [&](MPI_Request* made) {
        return MPI_Irecv(bytes, count, MPI_BYTE, from, tag, MPI_COMM_WORLD, made);
      },
      request);
}

int test(void** request, bool* is_done, int* count) {
  auto* const made = static_cast<MPI_Request*>(*request);
  MPI_Status status;
  int done = 0;
  int error = MPI_Test(made, &done, &status);
  *is_done = done != 0;
  if (error == MPI_SUCCESS && *is_done) error = MPI_Get_count(&status, MPI_BYTE, count);
  if (*is_done || error != MPI_SUCCESS) {
    delete made;
    *request = nullptr;
  }
  return error;
}

void cancel(void** request) {
  auto* const made = static_cast<MPI_Request*>(*request);
  MPI_Cancel(made);
  MPI_Request_free(made);
  delete made;
  *request = nullptr;
}

int end() { return MPI_Finalize(); }

void abort(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

void describe(int error, char* text) {
  int length = 0;
  if (MPI_Error_string(error, text, &length) != MPI_SUCCESS) length = 0;
  text[length] = 0;
}

constexpr mantissa::MpiFunctions kFunctions = {begin,  send, receive, test,
                                               cancel, end,  abort,   describe};

}  // namespace

extern "C" __attribute__((visibility("default"))) const mantissa::MpiFunctions*
mantissa_mpi_functions() {
  return &kFunctions;
}
