include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# mantissa_library(TARGET STATIC|SHARED)
#
# libmantissa: the objects of all folders (mantissa_folder.cmake) in one library. Those who link it
# see include/ and nothing of src/.
function(mantissa_library target kind)
  add_library(${target} ${kind} ${MANTISSA_OBJECTS})
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE ${MANTISSA_LIBRARIES})
  # Before 1.0 a new minor version may change the interface.
  set_target_properties(${target} PROPERTIES
    LINKER_LANGUAGE CXX OUTPUT_NAME mantissa EXPORT_NAME mantissa
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(kind STREQUAL SHARED)
    set(map ${PROJECT_SOURCE_DIR}/cmake/exports.map)
    target_link_options(${target} PRIVATE LINKER:--version-script=${map})
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
  endif()
endfunction()

# mantissa_install_library(TARGET [COMPONENT name] [EXCLUDE_FROM_ALL])
#
# Installs the library, the public headers, and the files by which CMake and pkg-config find them.
# All paths in these are relative, so that the installed folder may be moved.
function(mantissa_install_library target)
  cmake_parse_arguments(arg "EXCLUDE_FROM_ALL" "COMPONENT" "" ${ARGN})
  set(options)
  if(arg_COMPONENT)
    list(APPEND options COMPONENT ${arg_COMPONENT})
  endif()
  if(arg_EXCLUDE_FROM_ALL)
    list(APPEND options EXCLUDE_FROM_ALL)
  endif()
  # Projects that link the static library link these, too; the shared one brings them along.
  get_target_property(type ${target} TYPE)
  set(targets MantissaShared)
  set(packages)
  set(requires)
  set(libraries)
  if(type STREQUAL STATIC_LIBRARY)
    set(targets MantissaStatic)
    set(packages Threads Nettle ZLIB PNG JPEG Utf8proc SentencePiece tomlplusplus)
    set(requires nettle zlib libpng libjpeg libutf8proc sentencepiece tomlplusplus)
    list(JOIN requires " " requires)
    set(libraries "-pthread -l${CMAKE_DL_LIBS}")
  endif()
  set(generated ${PROJECT_BINARY_DIR}/package/${target})
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Mantissa)

  install(TARGETS ${target} EXPORT ${target}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} ${options}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${options})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/mantissa
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${options} FILES_MATCHING PATTERN *.h)
  install(EXPORT ${target} FILE ${targets}.cmake NAMESPACE Mantissa::
          DESTINATION ${package} ${options})

  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/MantissaConfig.cmake.in
                                ${generated}/MantissaConfig.cmake INSTALL_DESTINATION ${package}
                                NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${generated}/MantissaConfigVersion.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${generated}/MantissaConfig.cmake ${generated}/MantissaConfigVersion.cmake
                ${PROJECT_SOURCE_DIR}/cmake/FindNettle.cmake
                ${PROJECT_SOURCE_DIR}/cmake/FindUtf8proc.cmake
                ${PROJECT_SOURCE_DIR}/cmake/FindSentencePiece.cmake
          DESTINATION ${package} ${options})

  set(pkgconfig ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH prefix ${pkgconfig} ${CMAKE_INSTALL_PREFIX})
  file(RELATIVE_PATH includedir ${pkgconfig} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/mantissa.pc.in ${generated}/mantissa.pc @ONLY)
  install(FILES ${generated}/mantissa.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${options})
endfunction()
