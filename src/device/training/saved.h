// The state of a model as one block of bytes, the same on machines of any byte order: a header,
// then the numbers of the state, little-endian.
//
// Header, 40 bytes: "MANTISSA", the version (uint32: 1), the checksum of all that follows
// (uint32, CRC-32), the program's identity (uint64), steps done (int64), bytes of the state
// (uint64).
#pragma once

#include "reference/types.h"

enum { DEV_SAVED_HEADER_BYTES = 40, DEV_SAVED_VERSION = 1 };

// `count` numbers of `width` bytes each, from a place in the state on.
typedef struct DevRun {
  int32_t place, count;
  int8_t width;
} DevRun;

typedef struct DevSavedForm {
  const DevRun* runs;
  int32_t count;
  int32_t bytes;  // of the state
  uint64_t identity;
} DevSavedForm;

typedef enum DevLoaded {
  DEV_LOADED,
  DEV_NO_STATE,       // it does not begin as a saved state does
  DEV_OTHER_VERSION,  // of the format
  DEV_OTHER_PROGRAM,  // another network, format or optimiser
  DEV_DAMAGED         // its checksum is another
} DevLoaded;

// A learning rate from a step on: the bits of a double.
typedef struct DevRate {
  int64_t step;
  uint64_t rate;
} DevRate;

REF_BEGIN

// Numbers, little-endian, as this machine has them.
void dev_unpack(const DevSavedForm*, const uint8_t* packed, uint8_t* state) REF_NOEXCEPT;
// `block` has bytes + DEV_SAVED_HEADER_BYTES.
void dev_save(const DevSavedForm*, const uint8_t* state, int64_t step, uint8_t* block) REF_NOEXCEPT;
// Changes nothing unless all of the block is right.
DevLoaded dev_load(const DevSavedForm*, const uint8_t* block, uint8_t* state,
                   int64_t* step) REF_NOEXCEPT;
// The rate of a step: of the last entry that begins at it or before.
uint64_t dev_rate_at(const DevRate*, int32_t count, int64_t step) REF_NOEXCEPT;

REF_END
