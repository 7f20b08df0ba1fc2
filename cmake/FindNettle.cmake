# Nettle::nettle, the hashes. This module is installed beside MantissaConfig.cmake: projects that
# link the static library look for nettle, too.
find_path(NETTLE_INCLUDE_DIR nettle/sha2.h)
find_library(NETTLE_LIBRARY nettle)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Nettle REQUIRED_VARS NETTLE_LIBRARY NETTLE_INCLUDE_DIR)
mark_as_advanced(NETTLE_LIBRARY NETTLE_INCLUDE_DIR)
if(Nettle_FOUND AND NOT TARGET Nettle::nettle)
  add_library(Nettle::nettle UNKNOWN IMPORTED)
  set_target_properties(Nettle::nettle PROPERTIES
    IMPORTED_LOCATION ${NETTLE_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${NETTLE_INCLUDE_DIR})
endif()
