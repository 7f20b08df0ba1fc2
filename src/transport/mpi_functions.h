// The MPI functions that the transport needs, in a library of their own (src/mpi). It is loaded if
// a launcher started several processes. Otherwise MPI need not be installed.
#pragma once

namespace mantissa {

// All from one thread. Functions that return int give 0, or MPI's error code.
struct MpiFunctions {
  // Joins the other processes.
  int (*begin)(int* process, int* processes);
  // Begin to send or receive `count` bytes; they stay where they are until the request is done.
  // `request` is for test() alone, which must be called until it is done.
  int (*send)(const void* bytes, int count, int to, int tag, void** request);
  int (*receive)(void* bytes, int count, int from, int tag, void** request);
  // Whether the request is done, and how many bytes were received.
  int (*test)(void** request, bool* is_done, int* count);
  // Cancels a receive that is not done.
  void (*cancel)(void** request);
  // Waits for the other processes (a barrier).
  int (*end)();
  // Ends all processes.
  void (*abort)(int code);
  // Writes the text of an error code; there is room for 512 characters.
  void (*describe)(int error, char* text);
};

constexpr const char* kMpiFunctionsSymbol = "mantissa_mpi_functions";
using GetMpiFunctions = const MpiFunctions*();

}  // namespace mantissa
