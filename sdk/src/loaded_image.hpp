#pragma once

#include "strata/internal/library_file.hpp"

namespace strata {

/// True if `handle`, a result of dlopen(), is of a library with the program headers and notes of `file`. A linker
/// writes its build ID, a hash of the whole library, into the notes.
bool has_headers_of(void* handle, const LibraryFile& file);

}  // namespace strata
