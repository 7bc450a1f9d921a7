# Defines Sentencepiece::Sentencepiece, and Sentencepiece::Trainer for tests. sentencepiece has no CMake package.

find_path(Sentencepiece_INCLUDE_DIR sentencepiece_processor.h)
find_library(Sentencepiece_LIBRARY sentencepiece)
find_library(Sentencepiece_TRAINER sentencepiece_train)
mark_as_advanced(Sentencepiece_INCLUDE_DIR Sentencepiece_LIBRARY Sentencepiece_TRAINER)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Sentencepiece REQUIRED_VARS Sentencepiece_LIBRARY Sentencepiece_INCLUDE_DIR)

if(Sentencepiece_FOUND AND NOT TARGET Sentencepiece::Sentencepiece)
  add_library(Sentencepiece::Sentencepiece UNKNOWN IMPORTED)
  set_target_properties(Sentencepiece::Sentencepiece PROPERTIES
    IMPORTED_LOCATION ${Sentencepiece_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${Sentencepiece_INCLUDE_DIR})
  add_library(Sentencepiece::Trainer UNKNOWN IMPORTED)
  set_target_properties(Sentencepiece::Trainer PROPERTIES IMPORTED_LOCATION ${Sentencepiece_TRAINER})
  target_link_libraries(Sentencepiece::Trainer INTERFACE Sentencepiece::Sentencepiece)
endif()
