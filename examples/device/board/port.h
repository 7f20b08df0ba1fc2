// An example needs three things of its machine: text, an end, and how much stack was used.
#pragma once

#include <stdint.h>

void port_write(const char* text);
void port_exit(int status);
uint32_t port_stack_used(void);  // bytes, found by painting; 0 where that is unknown
// Two empty functions: an emulator that knows their addresses counts what runs between them
// (counter.c).
void port_begin(void);
void port_end(void);
