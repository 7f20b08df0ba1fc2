// Primitives of oneDNN: created once, run again and again.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "kernels/fp32/onednn.h"

namespace mantissa::kernels::fp32 {

// Objects of oneDNN are destroyed by functions that are known only at run time.
template <auto kDestroy>
struct Destroy {
  template <typename T>
  void operator()(T* object) const {
    (onednn().*kDestroy)(object);
  }
};
using Attributes = std::unique_ptr<dnnl_primitive_attr, Destroy<&OneDnn::primitive_attr_destroy>>;
using Description = std::unique_ptr<dnnl_primitive_desc, Destroy<&OneDnn::primitive_desc_destroy>>;
using Memory = std::unique_ptr<dnnl_memory, Destroy<&OneDnn::memory_destroy>>;
using Layout = std::unique_ptr<OneDnnLayout, Destroy<&OneDnn::memory_desc_destroy>>;

// A tensor of a primitive, by oneDNN's name for it. Its data are given to each run.
struct Argument {
  int name = 0;
  Memory memory;
};
Argument argument(int name, const OneDnnLayout* layout);

class Primitive {
 public:
  Primitive() = default;
  Primitive(const Description& description, std::vector<Argument> arguments);

  // False: oneDNN had no memory for it, or it was never created.
  bool is_created() const { return primitive_ != nullptr; }

  // Runs it with the data of the arguments, in their order. False if oneDNN failed.
  bool run(std::initializer_list<const void*> data) const;

 private:
  std::unique_ptr<dnnl_primitive, Destroy<&OneDnn::primitive_destroy>> primitive_;
  std::vector<Argument> arguments_;
  std::vector<dnnl_exec_arg_t> list_;
};

// Copies a tensor into another layout: {from, to}.
Primitive reorder(const OneDnnLayout* from, const OneDnnLayout* to);

// Primitives that this process has created, for tests.
int64_t primitives_created() noexcept;

}  // namespace mantissa::kernels::fp32
