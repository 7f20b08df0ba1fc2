// A network as C, of the prefix `mantissa`.
#include "mantissa.h"

#include "logits.h"

static mantissa_memory memory;

int main(void) {
  for (int i = 0; i < COUNT; ++i) {
    int32_t results[MANTISSA_RESULTS];
    port_begin();
    mantissa_predict(&memory, inputs + i * MANTISSA_INPUTS, results);
    port_end();
    for (int k = 0; k < MANTISSA_RESULTS; ++k) write_byte((uint8_t)results[k]);
    port_write("\n");
  }
  return 0;
}
