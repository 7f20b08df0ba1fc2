# mantissa_reference()
#
# src/reference: freestanding C99, without warnings of the strict kind. Its tests are C++.
function(mantissa_reference)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/reference/*.c)
  add_library(mantissa_reference STATIC ${sources})
  target_include_directories(mantissa_reference PUBLIC ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(mantissa_reference PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON
    C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden UNITY_BUILD OFF)
  target_compile_options(mantissa_reference PRIVATE -ffreestanding -Wconversion
                                                    $<$<CONFIG:Quick>:-O2>)
  set(MANTISSA_OBJECTS ${MANTISSA_OBJECTS} $<TARGET_OBJECTS:mantissa_reference> PARENT_SCOPE)
endfunction()
