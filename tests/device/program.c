// The same program on every machine: predicts pictures, or takes steps of training, and prints a hash
// of all numbers. PICTURES and STEPS, and the data, come from data.h (tests/device/make_data.py).
#include "data.h"
#include "port.h"

#ifdef TRAINS
#include "mantissa_training.h"
#else
#include "mantissa.h"
#endif

static uint32_t hash = 0x811c9dc5;  // FNV-1a, of numbers: their lowest byte first

static void add_byte(uint32_t byte) { hash = (hash ^ (byte & 0xff)) * 0x01000193; }

static void write_hex(const char* name, uint32_t number) {
  char text[12] = " 00000000\n";
  for (int i = 0; i < 8; ++i) text[1 + i] = "0123456789abcdef"[number >> (28 - 4 * i) & 15];
  port_write(name);
  port_write(text);
}

#ifdef TRAINS

static mantissa_training training;
static uint8_t block[MANTISSA_SAVED_BYTES];

static int run(void) {
  mantissa_begin(&training);
  for (int i = 0; i < STEPS; ++i) {
    mantissa_result result;
    port_begin();
    const bool good = mantissa_step(&training, pictures + i * BATCH_BYTES,
                                    labels + i * MANTISSA_BATCH, &result);
    port_end();
    if (!good) return 1;
  }
  mantissa_save(&training, block);
  for (uint32_t i = 0; i < sizeof(block); ++i) add_byte(block[i]);
  return mantissa_load(&training, block) == DEV_LOADED ? 0 : 2;
}

#else

static mantissa_memory memory;

static int run(void) {
  for (int i = 0; i < PICTURES; ++i) {
    int32_t results[MANTISSA_RESULTS];
    port_begin();
    mantissa_predict(&memory, pictures + i * MANTISSA_INPUTS, results);
    port_end();
    for (int k = 0; k < MANTISSA_RESULTS; ++k) {
      for (int b = 0; b < 4; ++b) add_byte((uint32_t)results[k] >> (8 * b));
    }
  }
  return 0;
}

#endif

int main(void) {
  const int status = run();
  write_hex("stack", port_stack_used());
  write_hex("hash", hash);
  return status;
}
