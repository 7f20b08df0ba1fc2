// TensorFlow Lite Micro with a model whose input and result are bytes.
#include <cstdint>
#include <new>

#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"
extern "C" {
#include "logits.h"

// What the interpreter wants of its machine.
void DebugLog(const char* text, va_list) { port_write(text); }
int DebugVsnprintf(char*, size_t, const char*, va_list) { return 0; }
void __cxa_pure_virtual() { port_exit(98); }
void abort() {
  port_exit(97);
  for (;;) {
  }
}
void* __dso_handle;
int __aeabi_atexit(void*, void (*)(void*), void*) { return 0; }
}
void operator delete(void*) noexcept {}
void operator delete(void*, unsigned) noexcept {}

alignas(16) static uint8_t arena[ARENA];

extern "C" int main() {
  static tflite::MicroMutableOpResolver<12> resolver;
  new (&resolver) tflite::MicroMutableOpResolver<12>();  // no constructors run before main
  resolver.AddConv2D();
  resolver.AddDepthwiseConv2D();
  resolver.AddFullyConnected();
  resolver.AddAdd();
  resolver.AddMaxPool2D();
  resolver.AddAveragePool2D();
  resolver.AddConcatenation();
  resolver.AddPad();
  resolver.AddReshape();
  resolver.AddRelu();
  resolver.AddQuantize();
  resolver.AddSoftmax();
  static tflite::MicroInterpreter interpreter(tflite::GetModel(model), resolver, arena, ARENA);
  if (interpreter.AllocateTensors() != kTfLiteOk) return 1;
  const uint8_t* from = inputs;
  for (int i = 0; i < COUNT; ++i) {
    // Each time: the planner gives the input's memory to later tensors.
    TfLiteTensor* input = interpreter.input(0);
    for (size_t k = 0; k < input->bytes; ++k) input->data.uint8[k] = *from++;
    port_begin();
    const TfLiteStatus status = interpreter.Invoke();
    port_end();
    if (status != kTfLiteOk) return 2;
    const TfLiteTensor* output = interpreter.output(0);
    for (size_t k = 0; k < output->bytes; ++k) write_byte(output->data.uint8[k]);
    port_write("\n");
  }
  return 0;
}
