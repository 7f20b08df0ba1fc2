#include "device/training/saved.h"

static const uint8_t kMagic[8] = {'M', 'A', 'N', 'T', 'I', 'S', 'S', 'A'};

// Places in the header.
enum { kVersion = 8, kChecksum = 12, kIdentity = 16, kStep = 24, kBytes = 32 };

static void put(uint8_t* to, uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = (uint8_t)(number >> (8 * i));
}

static uint64_t get(const uint8_t* from, int bytes) {
  uint64_t number = 0;
  for (int i = 0; i < bytes; ++i) number |= (uint64_t)from[i] << (8 * i);
  return number;
}

// CRC-32 (IEEE 802.3), a bit at a time: states are saved seldom.
static uint32_t checksum(const uint8_t* bytes, int32_t count) {
  uint32_t crc = UINT32_MAX;
  for (int32_t i = 0; i < count; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT32_C(0xedb88320) : 0);
  }
  return ~crc;
}

// The numbers of a run between the machine's order and little-endian.
static void copy_run(const DevRun* run, const uint8_t* from, uint8_t* to, bool packs) {
  for (int32_t i = 0; i < run->count; ++i) {
    const int32_t at = run->place + i * run->width;
    uint64_t number = 0;
    uint8_t* bytes = (uint8_t*)&number;
    const uint16_t probe = 1;
    const bool is_little = *(const uint8_t*)&probe == 1;
    if (packs) {
      for (int b = 0; b < run->width; ++b) bytes[is_little ? b : 8 - run->width + b] = from[at + b];
      put(to + at, number, run->width);
    } else {
      number = get(from + at, run->width);
      for (int b = 0; b < run->width; ++b) to[at + b] = bytes[is_little ? b : 8 - run->width + b];
    }
  }
}

void dev_unpack(const DevSavedForm* form, const uint8_t* packed, uint8_t* state) {
  for (int32_t i = 0; i < form->count; ++i) copy_run(form->runs + i, packed, state, false);
}

void dev_save(const DevSavedForm* form, const uint8_t* state, int64_t step, uint8_t* block) {
  uint8_t* packed = block + DEV_SAVED_HEADER_BYTES;
  for (int i = 0; i < 8; ++i) block[i] = kMagic[i];
  put(block + kVersion, DEV_SAVED_VERSION, 4);
  put(block + kIdentity, form->identity, 8);
  put(block + kStep, (uint64_t)step, 8);
  put(block + kBytes, (uint64_t)form->bytes, 8);
  for (int32_t i = 0; i < form->bytes; ++i) packed[i] = 0;
  for (int32_t i = 0; i < form->count; ++i) copy_run(form->runs + i, state, packed, true);
  put(block + kChecksum,
      checksum(block + kIdentity, DEV_SAVED_HEADER_BYTES - kIdentity + form->bytes), 4);
}

DevLoaded dev_load(const DevSavedForm* form, const uint8_t* block, uint8_t* state, int64_t* step) {
  for (int i = 0; i < 8; ++i) {
    if (block[i] != kMagic[i]) return DEV_NO_STATE;
  }
  if (get(block + kVersion, 4) != DEV_SAVED_VERSION) return DEV_OTHER_VERSION;
  if (get(block + kIdentity, 8) != form->identity ||
      get(block + kBytes, 8) != (uint64_t)form->bytes)
    return DEV_OTHER_PROGRAM;
  const int32_t count = DEV_SAVED_HEADER_BYTES - kIdentity + form->bytes;
  if (get(block + kChecksum, 4) != checksum(block + kIdentity, count)) return DEV_DAMAGED;
  dev_unpack(form, block + DEV_SAVED_HEADER_BYTES, state);
  *step = (int64_t)get(block + kStep, 8);
  return DEV_LOADED;
}

uint64_t dev_rate_at(const DevRate* rates, int32_t count, int64_t step) {
  int32_t i = 0;
  while (i + 1 < count && rates[i + 1].step <= step) ++i;
  return rates[i].rate;
}
