// The model and its inputs as bytes of the program, without the model if nothing reads it.
  .section .rodata.model, "a"
  .balign 16
  .global model
model:
  .incbin MODEL
  .section .rodata.inputs, "a"
  .balign 16
  .global inputs
inputs:
  .incbin INPUTS
