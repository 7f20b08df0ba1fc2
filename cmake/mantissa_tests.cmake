# mantissa_tests(TARGET FOLDER)
#
# The suites of the GoogleTest program TARGET as tests FOLDER/SUITE of CTest (list_suites.cmake): a
# process for each of over a thousand cases would take longer than most of them.
function(mantissa_tests target folder)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake)
  set(script ${PROJECT_SOURCE_DIR}/cmake/list_suites.cmake)
  set(slow ${PROJECT_SOURCE_DIR}/tests/slow.txt)
  if(NOT EXISTS ${out})
    file(WRITE ${out} "add_test(${folder}/NOT_BUILT ${target}_NOT_BUILT)\n")
  endif()
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS ${out} VERBATIM
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${target}> -D FOLDER=${folder}
            -D SLOW=${slow} -D RESULTS=${PROJECT_BINARY_DIR}/results -D OUT=${out} -P ${script})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script} ${slow})
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${out})
endfunction()

# mantissa_script_tests(SCRIPT...): test scripts as tests of CTest, by their paths in the repository.
# An exit status of 77 means skipped. Those that tests/slow.txt names have the label slow.
function(mantissa_script_tests)
  file(STRINGS ${PROJECT_SOURCE_DIR}/tests/slow.txt slow REGEX "^[^#]")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/slow.txt)
  foreach(script IN LISTS ARGN)
    add_test(NAME ${script} COMMAND bash ${script} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    # A test that hangs must not hang everything. A slow machine takes 900 s for the longest one.
    set_tests_properties(${script} PROPERTIES TIMEOUT 1800 SKIP_RETURN_CODE 77 ENVIRONMENT
      "MANTISSA=$<TARGET_FILE:mantissa>;MANTISSA_CLANG=${PROJECT_SOURCE_DIR}/build/clang/mantissa")
    if(script IN_LIST slow)
      # CTest begins with the most costly ones, also where it has not measured any yet: a long test
      # that begins last keeps one core alone.
      set_tests_properties(${script} PROPERTIES LABELS slow COST 100)
    endif()
  endforeach()
endfunction()
