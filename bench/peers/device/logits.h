// The programs of bench/peers/compare_device: `inputs` is inputs one after the other, and each gives
// a line of results, a byte in two hexadecimal digits.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "port.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const uint8_t inputs[];  // data.S
extern const uint8_t model[];

static void write_byte(uint8_t byte) {
  const char text[] = {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15], 0};
  port_write(text);
}

#ifdef __cplusplus
}
#endif
