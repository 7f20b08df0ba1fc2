# mantissa_precompile(TARGET NAME LIBRARY [OPTIONS option...] HEADERS header...)
#
# Compiles HEADERS, of LIBRARY, once for all targets of one type and NAME. They belong to a target of
# their own, so that none of the others waits for another.
function(mantissa_precompile target name library)
  cmake_parse_arguments(arg "" "" "OPTIONS;HEADERS" ${ARGN})
  get_target_property(type ${target} TYPE)
  string(TOLOWER "${type}" kind)
  string(MAKE_C_IDENTIFIER "mantissa_${name}_of_${kind}" owner)
  if(NOT TARGET ${owner})
    set(source ${PROJECT_BINARY_DIR}/precompiled/main.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n")
    if(type STREQUAL EXECUTABLE)
      add_executable(${owner} ${source})
    else()
      add_library(${owner} OBJECT ${source})
    endif()
    target_link_libraries(${owner} PRIVATE ${library})
    target_compile_options(${owner} PRIVATE ${arg_OPTIONS})
    target_precompile_headers(${owner} PRIVATE ${arg_HEADERS})
  endif()
  target_compile_options(${target} PRIVATE ${arg_OPTIONS})
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# Tests cost mostly the compiler's time: their own code needs no speed, and headers that all of them
# include are read once. NAME, LIBRARY and HEADERS: of a target with more such headers.
function(mantissa_test_options target)
  cmake_parse_arguments(arg "" "NAME;LIBRARY" "HEADERS" ${ARGN})
  if(NOT arg_NAME)
    set(arg_NAME GTest::gtest)
  endif()
  mantissa_precompile(${target} ${arg_NAME} "GTest::gtest;${arg_LIBRARY}" OPTIONS -O1
                      HEADERS <gtest/gtest.h> <rapidcheck.h> ${arg_HEADERS})
endfunction()

# Code that runs once per command or epoch costs mostly memory and the compiler's time, and much of
# that is the JSON header. Presets that are not for editing have CMAKE_UNITY_BUILD: the compiler
# reads several files at once, in half the time. So names in the unnamed namespaces of one folder
# differ.
function(mantissa_cold_options target)
  mantissa_precompile(${target} nlohmann_json::nlohmann_json nlohmann_json::nlohmann_json
                      OPTIONS $<$<NOT:$<CONFIG:Quick>>:-Os> HEADERS <nlohmann/json.hpp>)
endfunction()

# The standard library's headers that most other files include. Not with g++: when it optimises, it
# warns about code in precompiled headers of the standard library.
function(mantissa_hot_options target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  mantissa_precompile(${target} standard_headers "" HEADERS
    <algorithm> <array> <bit> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map>
    <memory> <numeric> <optional> <set> <span> <string> <string_view> <utility> <variant> <vector>)
endfunction()

# mantissa_groups(TARGET)
#
# With CMAKE_UNITY_BUILD, up to ten files of one folder are compiled at once: a new file changes the
# groups of its own folder only.
function(mantissa_groups target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  set(folders)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    list(APPEND folders "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    set(files ${sources})
    list(FILTER files INCLUDE REGEX "^${folder}/[^/]+$")
    list(LENGTH files count)
    math(EXPR groups "(${count} + 9) / 10")
    set(i 0)
    foreach(file IN LISTS files)
      math(EXPR group "${i} * ${groups} / ${count}")
      file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${folder}/${group})
      string(MAKE_C_IDENTIFIER "${name}" name)
      set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${name})
      math(EXPR i "${i} + 1")
    endforeach()
  endforeach()
endfunction()

# mantissa_folder(NAME [APART] [COLD [HOT file...]] [FOLDERS name...] [LIBRARIES target...]
#                 [HEADERS target...])
#
# One library per folder of src/: every *.cpp below it, apart from the tests (*_test.cpp, one test
# program per folder) and micro-benchmarks (*_bench.cpp). New files are found by themselves.
# APART: each file is compiled by itself, in every preset.
# COLD: compiled for size (mantissa_cold_options), except the files HOT, whose loops go over data.
# LIBRARIES are linked, HEADERS only included. The lists MANTISSA_OBJECTS and MANTISSA_LIBRARIES
# collect the parts of the library of all folders (mantissa_library.cmake).
function(mantissa_folder name)
  cmake_parse_arguments(arg "APART;COLD" "" "HOT;FOLDERS;LIBRARIES;HEADERS" ${ARGN})
  set(directory ${PROJECT_SOURCE_DIR}/src/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${directory}/*.cpp)
  set(tests ${sources})
  set(benchmarks ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER benchmarks INCLUDE REGEX "_bench\\.cpp$")

  list(TRANSFORM arg_FOLDERS PREPEND mantissa_)
  if(sources)
    add_library(mantissa_${name} STATIC ${sources})
    target_include_directories(mantissa_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(mantissa_${name} PUBLIC ${arg_FOLDERS} ${arg_LIBRARIES}
                                                ${arg_HEADERS})
    list(APPEND MANTISSA_OBJECTS $<TARGET_OBJECTS:mantissa_${name}>)
    mantissa_groups(mantissa_${name})
    # A loop's speed must not depend on the code before it in the file.
    if(arg_APART OR NOT (arg_COLD OR CMAKE_BUILD_TYPE STREQUAL "Quick"))
      set_target_properties(mantissa_${name} PROPERTIES UNITY_BUILD OFF)
    endif()
    if(arg_COLD)
      mantissa_cold_options(mantissa_${name})
      list(TRANSFORM arg_HOT REPLACE "(.+)" "${directory}/\\1.cpp")
      set_source_files_properties(${arg_HOT} PROPERTIES
                                  COMPILE_OPTIONS $<IF:$<CONFIG:Quick>,-O2,-O3>
                                  SKIP_PRECOMPILE_HEADERS ON)
    else()
      target_compile_options(mantissa_${name} PRIVATE $<$<CONFIG:Quick>:-O2>)
      mantissa_hot_options(mantissa_${name})
    endif()
  else()
    add_library(mantissa_${name} INTERFACE)
    target_include_directories(mantissa_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(mantissa_${name} INTERFACE ${arg_FOLDERS} ${arg_LIBRARIES}
                                                     ${arg_HEADERS})
  endif()
  list(APPEND MANTISSA_LIBRARIES ${arg_LIBRARIES})
  set(MANTISSA_OBJECTS ${MANTISSA_OBJECTS} PARENT_SCOPE)
  set(MANTISSA_LIBRARIES ${MANTISSA_LIBRARIES} PARENT_SCOPE)

  if(MANTISSA_TESTS AND tests)
    add_executable(${name}_test ${tests})
    mantissa_groups(${name}_test)
    mantissa_test_options(${name}_test)
    target_link_libraries(${name}_test PRIVATE mantissa_${name} GTest::gtest_main
                                               ${RAPIDCHECK_LIBRARY})
    mantissa_tests(${name}_test ${name})
  endif()
  if(MANTISSA_BENCHMARKS AND benchmarks)
    add_executable(${name}_bench ${benchmarks})
    target_link_libraries(${name}_bench PRIVATE mantissa_${name} benchmark::benchmark_main)
  endif()
endfunction()

# mantissa_generated_source(TARGET FILE)
#
# A source of TARGET that a custom command writes. It belongs to a target without libraries, too: so
# the command waits for none, and neither do all who link TARGET.
function(mantissa_generated_source target file)
  add_custom_target(${target}_generated DEPENDS ${file})
  add_dependencies(${target} ${target}_generated)
  target_sources(${target} PRIVATE ${file})
endfunction()
