# Stores checksums in a plugin, in the section .strata_checksums: one line "SHA-256 NAME" for each section that is loaded.
# The host compares them before it loads the plugin.
#
#   cmake -D FILE=plugin.so -D READELF=readelf -D OBJCOPY=objcopy -P StrataChecksums.cmake
#
# Left out is what changes after the build: .dynamic and .dynstr (installing writes the search path of libraries), notes
# (packaging tools write the build id). The host judges the plugin's record and .dynamic itself.

cmake_minimum_required(VERSION 3.20)

set(unstable .dynamic .dynstr .strata_plugin)

execute_process(COMMAND ${READELF} -SW ${FILE} OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" lines "${table}")
set(sections)
set(dumps)
set(folder ${FILE}.sections)
foreach(line IN LISTS lines)
  #                 [number] name        type      address      offset       size         entry         flags
  if(line MATCHES "\\] ([^ ]+) +([A-Z_]+) +[0-9a-f]+ +[0-9a-f]+ +[0-9a-f]+ +[0-9a-f]+ +[A-Za-z]*A")
    set(name ${CMAKE_MATCH_1})
    if(NOT CMAKE_MATCH_2 MATCHES "^(NOTE|NOBITS)$" AND NOT name IN_LIST unstable)
      list(APPEND sections ${name})
      list(APPEND dumps --dump-section ${name}=${folder}/${name})
    endif()
  endif()
endforeach()

file(REMOVE_RECURSE ${folder})
file(MAKE_DIRECTORY ${folder})
execute_process(COMMAND ${OBJCOPY} ${dumps} ${FILE} ${folder}/copy COMMAND_ERROR_IS_FATAL ANY)
set(text "")
foreach(name IN LISTS sections)
  file(SHA256 ${folder}/${name} checksum)
  string(APPEND text "${checksum} ${name}\n")
endforeach()
file(WRITE ${folder}/checksums "${text}")
execute_process(COMMAND ${OBJCOPY} --add-section .strata_checksums=${folder}/checksums ${FILE} COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${folder})
