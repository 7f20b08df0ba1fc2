#include "kernels/fp32/primitive.h"

#include <atomic>
#include <utility>

namespace mantissa::kernels::fp32 {
namespace {

std::atomic<int64_t> created{0};

}  // namespace

Argument argument(int name, const OneDnnLayout* layout) {
  dnnl_memory_t memory = nullptr;
  onednn().memory_create(&memory, layout, onednn().engine, DNNL_MEMORY_NONE);
  return {name, Memory(memory)};
}

Primitive::Primitive(const Description& description, std::vector<Argument> arguments)
    : arguments_(std::move(arguments)) {
  for (const Argument& argument : arguments_) {
    if (argument.memory == nullptr) return;
    list_.push_back({argument.name, argument.memory.get()});
  }
  dnnl_primitive_t primitive = nullptr;
  if (onednn().primitive_create(&primitive, description.get()) != dnnl_success) return;
  ++created;
  primitive_.reset(primitive);
}

bool Primitive::run(std::initializer_list<const void*> data) const {
  const dnnl_exec_arg_t* argument = list_.data();
  for (const void* of_argument : data) {
    if (onednn().memory_set_data_handle(argument->memory, const_cast<void*>(of_argument)) !=
        dnnl_success) {
      return false;
    }
    ++argument;
  }
  return onednn().primitive_execute(primitive_.get(), onednn().stream,
                                    static_cast<int>(list_.size()), list_.data()) == dnnl_success &&
         onednn().stream_wait(onednn().stream) == dnnl_success;
}

Primitive reorder(const OneDnnLayout* from, const OneDnnLayout* to) {
  dnnl_primitive_desc_t description = nullptr;
  if (onednn().reorder_primitive_desc_create(&description, from, onednn().engine, to,
                                             onednn().engine, nullptr) != dnnl_success) {
    return {};
  }
  std::vector<Argument> arguments;
  arguments.push_back(argument(DNNL_ARG_FROM, from));
  arguments.push_back(argument(DNNL_ARG_TO, to));
  return Primitive(Description(description), std::move(arguments));
}

int64_t primitives_created() noexcept { return created; }

}  // namespace mantissa::kernels::fp32
