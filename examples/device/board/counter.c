// A plugin for qemu: counts the instructions that run between port_begin and port_end. Arguments:
// begin=ADDRESS,end=ADDRESS (of these two), out=FILE. It writes the least, the largest and the last
// count of all regions, and how many there were.
//
// The declarations are those of qemu's plugin interface, version 1, whose header Debian does not
// ship.
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
extern struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn*);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                                  void (*)(qemu_plugin_id_t,
                                                           struct qemu_plugin_tb*));
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn*,
                                                   void (*)(unsigned, void*), int, void*);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn*, int, void*,
                                                       uint64_t);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void*),
                                           void*);
EXPORT int qemu_plugin_version = 1;

static uint64_t begin_at = UINT64_MAX, end_at = UINT64_MAX;
static uint64_t count, started, regions, least = UINT64_MAX, most, last;
static FILE* out;

static void begin(unsigned cpu, void* data) {
  (void)cpu, (void)data;
  started = count;
}

static void end(unsigned cpu, void* data) {
  (void)cpu, (void)data;
  last = count - started;
  least = last < least ? last : least;
  most = last > most ? last : most;
  ++regions;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); ++i) {
    struct qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
    const uint64_t at = qemu_plugin_insn_vaddr(instruction);
    if (at == begin_at) qemu_plugin_register_vcpu_insn_exec_cb(instruction, begin, 0, NULL);
    if (at == end_at) qemu_plugin_register_vcpu_insn_exec_cb(instruction, end, 0, NULL);
    qemu_plugin_register_vcpu_insn_exec_inline(instruction, 0, &count, 1);
  }
}

static void done(qemu_plugin_id_t id, void* data) {
  (void)id, (void)data;
  fprintf(out, "least %" PRIu64 " most %" PRIu64 " last %" PRIu64 " regions %" PRIu64 "\n", least,
          most, last, regions);
  fclose(out);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void* info, int argc, char** argv) {
  (void)info;
  for (int i = 0; i < argc; ++i) {
    // Thumb functions have odd addresses.
    if (strncmp(argv[i], "begin=", 6) == 0) begin_at = strtoull(argv[i] + 6, NULL, 0) & ~UINT64_C(1);
    if (strncmp(argv[i], "end=", 4) == 0) end_at = strtoull(argv[i] + 4, NULL, 0) & ~UINT64_C(1);
    if (strncmp(argv[i], "out=", 4) == 0) out = fopen(argv[i] + 4, "w");
  }
  if (out == NULL) return -1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, done, NULL);
  return 0;
}
