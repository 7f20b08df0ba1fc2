// A machine with an operating system.
#include <stdio.h>
#include <stdlib.h>

#include "port.h"

void port_write(const char* text) { fputs(text, stdout); }
void port_exit(int status) { exit(status); }
uint32_t port_stack_used(void) { return 0; }
__attribute__((noinline)) void port_begin(void) { __asm__ volatile(""); }
__attribute__((noinline)) void port_end(void) { __asm__ volatile("nop"); }
