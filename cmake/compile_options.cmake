# How everything here is compiled and linked. All of it holds for this project's folders only: a
# project that contains this one keeps its own options.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Position-independent code, with symbols that only the library itself sees: one set of objects
# makes the static library, the shared one, the command and the tests.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)

# Kernels that are not optimised are of no use.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

# While editing, short builds matter: several files are compiled at once, kernels at -O2, all else
# at -O1. The bits are the same.
set(CMAKE_CXX_FLAGS_QUICK "-O1" CACHE STRING "Flags of the build type Quick")
set(CMAKE_C_FLAGS_QUICK "-O1" CACHE STRING "Flags of the build type Quick")
if(CMAKE_BUILD_TYPE STREQUAL "Quick")
  set(CMAKE_UNITY_BUILD ON)
endif()

# Contraction to FMA would make scalars differ between compilers and machines.
add_compile_options(-Wall -Wextra -Wshadow -ffp-contract=off -fno-math-errno)
# Nobody replaces functions of the shared library: they are called directly, and inlined.
add_compile_options(-fno-semantic-interposition)
# The linker leaves out code that nothing calls, and puts code together that runs rarely. So a tenth
# less is read into memory, which is an eighth of a small network's peak.
add_compile_options(-ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False positives of g++ 12: on std::string, and inside its own AVX-512 headers.
  add_compile_options(-Wno-restrict -Wno-uninitialized -Wno-maybe-uninitialized)
endif()

# All code reports its branches to the fuzzer, and stops on undefined behaviour.
if(MANTISSA_FUZZ)
  set(sanitizers -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_compile_options(${sanitizers})
  add_link_options(${sanitizers})
endif()

# Files are hostile: if reading one corrupts memory, the program should end.
if(MANTISSA_HARDENING)
  add_compile_options(-fstack-protector-strong -fstack-clash-protection -fcf-protection)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  # The C library warns if it is asked for checks without optimisation.
  add_compile_options($<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
                      $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
endif()
