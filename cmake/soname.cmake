# mantissa_soname(VARIABLE LIBRARY)
#
# Sets VARIABLE to the name by which programs that are linked with LIBRARY load it ("libdnnl.so.2"):
# the installed one, whose version differs between releases of a distribution.
function(mantissa_soname variable library)
  find_library(${library}_PATH ${library} REQUIRED)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${${library}_PATH} OUTPUT_VARIABLE headers
                  COMMAND_ERROR_IS_FATAL ANY)
  if(NOT headers MATCHES "SONAME +([^ \n]+)")
    message(FATAL_ERROR "${${library}_PATH} has no SONAME")
  endif()
  set(${variable} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()
