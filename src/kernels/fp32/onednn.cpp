#include "kernels/fp32/onednn.h"

#include <cstdlib>
#include <string>

#include "base/system/shared_library.h"

namespace mantissa::kernels::fp32 {
namespace {

// The one whose header this is written in.
constexpr const char* kLibrary = MANTISSA_ONEDNN_LIBRARY;

struct Loaded {
  OneDnn functions;
  std::string error;
};

Loaded load() {
  // Its threads and ours take turns: threads that spin while they wait would hold a core.
  setenv("OMP_WAIT_POLICY", "passive", 0);
  Loaded loaded;
  OneDnn& dnn = loaded.functions;
  SharedLibrary library(kLibrary);
#define MANTISSA_ONEDNN(name) dnn.name = library.find("dnnl_" #name);
#include "kernels/fp32/onednn.inc"
#undef MANTISSA_ONEDNN
  dnn.set_threads = library.find("omp_set_num_threads");
  loaded.error = library.error();
  if (!loaded.error.empty()) return loaded;
  if (dnn.version()->major != DNNL_VERSION_MAJOR) {
    loaded.error = std::string(kLibrary) + " is of another version than its header";
  } else if (dnn.engine_create(&dnn.engine, dnnl_cpu, 0) != dnnl_success ||
             dnn.stream_create(&dnn.stream, dnn.engine, dnnl_stream_default_flags) !=
                 dnnl_success) {
    loaded.error = std::string(kLibrary) + " gives no CPU engine";
  }
  return loaded;
}

const Loaded& loaded_once() {
  static const Loaded loaded = load();
  return loaded;
}

}  // namespace

Status load_onednn() {
  const Loaded& loaded = loaded_once();
  if (loaded.error.empty()) return {};
  return failed("fp32 computes with oneDNN, which is not usable here (" + loaded.error +
                "); on Debian, install libdnnl-dev and build again");
}

const OneDnn& onednn() { return loaded_once().functions; }

}  // namespace mantissa::kernels::fp32
