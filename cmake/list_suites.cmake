# cmake -D PROGRAM=file -D FOLDER=name -D SLOW=file -D RESULTS=folder -D OUT=file -P list_suites.cmake
#
# Writes OUT for CTest: each suite of the GoogleTest program PROGRAM is a test FOLDER/SUITE, which is
# one process and leaves RESULTS/FOLDER-SUITE.xml. Cases that match a pattern of SLOW ("Suite.Case",
# a line each, # begins a comment) are left out there; they are the test FOLDER/SUITE/slow, which has
# the label slow.

# list_suites(VARIABLE FILTER): names of the suites that have a case.
function(list_suites variable filter)
  execute_process(COMMAND ${PROGRAM} --gtest_list_tests --gtest_filter=${filter}
                  OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${output}")
  set(suites)
  foreach(line IN LISTS lines)
    if(line MATCHES "^([^ ]+)\\.( |$)")  # cases are indented
      list(APPEND suites ${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(${variable} ${suites} PARENT_SCOPE)
endfunction()

# add_suite(NAME FILTER [PROPERTY...]): appends a test to `text`.
function(add_suite name filter)
  string(REPLACE "/" "-" file ${name})
  string(APPEND text "add_test([==[${name}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${filter}]==] "
                     "[==[--gtest_output=xml:${RESULTS}/${file}.xml]==])\n")
  list(JOIN ARGN " " properties)
  string(APPEND text "set_tests_properties([==[${name}]==] PROPERTIES TIMEOUT 900 ${properties})\n")
  set(text "${text}" PARENT_SCOPE)
endfunction()

# slow_cases(VARIABLE SUITE): the patterns of a suite, as GoogleTest separates them.
function(slow_cases variable suite)
  set(of_suite ${slow})
  list(FILTER of_suite INCLUDE REGEX "^${suite}\\.")
  list(JOIN of_suite ":" joined)
  set(${variable} "${joined}" PARENT_SCOPE)
endfunction()

file(STRINGS ${SLOW} slow REGEX "^[^#]")
list(JOIN slow ":" patterns)
set(text)
list_suites(suites "*-${patterns}")
foreach(suite IN LISTS suites)
  slow_cases(left_out ${suite})
  add_suite(${FOLDER}/${suite} "${suite}.*-${left_out}")
endforeach()
list_suites(suites "${patterns}")
foreach(suite IN LISTS suites)
  slow_cases(chosen ${suite})
  add_suite(${FOLDER}/${suite}/slow "${chosen}" LABELS slow)
endforeach()
file(WRITE ${OUT} "${text}")
