# mantissa_c_folder(NAME FOLDER)
#
# Freestanding C99 in src/FOLDER, without warnings of the strict kind: the library mantissa_NAME. Its
# tests are C++.
function(mantissa_c_folder name folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.c)
  add_library(mantissa_${name} STATIC ${sources})
  target_include_directories(mantissa_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(mantissa_${name} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON
    C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden UNITY_BUILD OFF)
  target_compile_options(mantissa_${name} PRIVATE -ffreestanding -Wconversion
                                                  $<$<CONFIG:Quick>:-O2>)
endfunction()

# mantissa_reference()
#
# The reference, and the real scalars of its rows.
function(mantissa_reference)
  mantissa_c_folder(reference reference)
  mantissa_c_folder(scalars scalars)
  target_link_libraries(mantissa_scalars PUBLIC mantissa_reference)
  set(MANTISSA_OBJECTS ${MANTISSA_OBJECTS} $<TARGET_OBJECTS:mantissa_reference>
                       $<TARGET_OBJECTS:mantissa_scalars> PARENT_SCOPE)
endfunction()

# mantissa_device_sources()
#
# The C sources that exported programs consist of, as text in the library.
function(mantissa_device_sources)
  set(script ${PROJECT_SOURCE_DIR}/cmake/mantissa_sources.cmake)
  set(output ${PROJECT_BINARY_DIR}/src/device/source_texts.cpp)
  set(folders reference scalars device/operators device/runtime device/training)
  set(depends)
  foreach(folder IN LISTS folders)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.c
                                              ${PROJECT_SOURCE_DIR}/src/${folder}/*.h)
    list(APPEND depends ${found})
  endforeach()
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR}/src "-DFOLDERS=${folders}"
            -DOUTPUT=${output} -P ${script}
    DEPENDS ${script} ${depends} VERBATIM)
  mantissa_generated_source(mantissa_device ${output})
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
