# SentencePiece::sentencepiece, pieces of words, and the library that learns them. This module is
# installed beside MantissaConfig.cmake: projects that link the static library look for
# sentencepiece, too.
find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_trainer.h)
find_library(SENTENCEPIECE_LIBRARY sentencepiece)
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SentencePiece REQUIRED_VARS SENTENCEPIECE_LIBRARY
  SENTENCEPIECE_TRAIN_LIBRARY SENTENCEPIECE_INCLUDE_DIR)
mark_as_advanced(SENTENCEPIECE_LIBRARY SENTENCEPIECE_TRAIN_LIBRARY SENTENCEPIECE_INCLUDE_DIR)
if(SentencePiece_FOUND AND NOT TARGET SentencePiece::sentencepiece)
  add_library(SentencePiece::sentencepiece UNKNOWN IMPORTED)
  set_target_properties(SentencePiece::sentencepiece PROPERTIES
    IMPORTED_LOCATION ${SENTENCEPIECE_TRAIN_LIBRARY}
    INTERFACE_LINK_LIBRARIES ${SENTENCEPIECE_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${SENTENCEPIECE_INCLUDE_DIR})
endif()
