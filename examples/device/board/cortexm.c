// Start-up of a Cortex-M without an operating system, for boards that qemu emulates: the vector
// table, .data, .bss, a painted stack, and text by semihosting.
#include <stddef.h>
#include <stdint.h>

#include "port.h"

extern uint32_t _data_load, _data_start, _data_end, _bss_start, _bss_end, _stack_low, _stack_top;
int main(void);
void reset_handler(void);
static void fault(void);

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))&_stack_top, reset_handler, fault, fault, fault, fault, fault, fault, 0, 0, 0,
    fault, fault, 0, fault, fault};

// Asks the debugger, which qemu is.
static int semihost(int operation, const void* argument) {
  register int r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void port_write(const char* text) { semihost(0x04, text); }

// SYS_EXIT_EXTENDED: SYS_EXIT carries no status on 32 bits.
void port_exit(int status) {
  const uint32_t block[2] = {0x20026u, (uint32_t)status};
  semihost(0x20, block);
  for (;;) {
  }
}

static void fault(void) {
  port_write("fault\n");
  port_exit(99);
}

static const uint32_t kPaint = 0x5afec0de;

uint32_t port_stack_used(void) {
  const uint32_t* at = &_stack_low;
  while (at < &_stack_top && *at == kPaint) ++at;
  return (uint32_t)((uintptr_t)&_stack_top - (uintptr_t)at);
}

__attribute__((noinline)) void port_begin(void) { __asm__ volatile(""); }
__attribute__((noinline)) void port_end(void) { __asm__ volatile("nop"); }

// gcc calls these even of programs without a library.
#define NO_CALLS __attribute__((optimize("no-tree-loop-distribute-patterns")))
void* memset(void* to, int c, size_t n);
void* memcpy(void* restrict to, const void* restrict from, size_t n);
NO_CALLS void* memset(void* to, int c, size_t n) {
  for (size_t i = 0; i < n; ++i) ((uint8_t*)to)[i] = (uint8_t)c;
  return to;
}
NO_CALLS void* memcpy(void* restrict to, const void* restrict from, size_t n) {
  for (size_t i = 0; i < n; ++i) ((uint8_t*)to)[i] = ((const uint8_t*)from)[i];
  return to;
}

__attribute__((noreturn)) NO_CALLS void reset_handler(void) {
#if defined(__ARM_FEATURE_MVE) || defined(__ARM_FP)
  // The vector unit is on before the first loop that gcc may vectorise.
  *(volatile uint32_t*)0xE000ED88u |= 0xFu << 20;
  __asm__ volatile("dsb\n isb" ::: "memory");
#endif
  const uint32_t* from = &_data_load;
  for (uint32_t* to = &_data_start; to < &_data_end;) *to++ = *from++;
  for (uint32_t* to = &_bss_start; to < &_bss_end;) *to++ = 0;
  uint32_t* here;
  __asm__ volatile("mov %0, sp" : "=r"(here));
  for (uint32_t* to = &_stack_low; to < here - 8;) *to++ = kPaint;
  port_exit(main());
  for (;;) {
  }
}
