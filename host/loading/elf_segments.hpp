#pragma once

#include <elf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "strata/internal/library_file.hpp"

namespace strata::host {

/// The segments of a library, which the dynamic loader maps into memory. They lie within the file, one after another in
/// memory. A segment beyond the end of the file would cause a bus error. \throws PluginFileError for a damaged or
/// truncated file.
[[nodiscard]] std::vector<Elf64_Phdr> read_segments(const LibraryFile& file, const Elf64_Ehdr& header);

/// \throws PluginFileError that calls the file damaged because of what was found.
[[noreturn]] void refuse_damaged(const std::string& found);

/// True if `count` bytes from `offset` on lie within `size` bytes, for any numbers.
[[nodiscard]] bool fits(std::uint64_t offset, std::uint64_t count, std::uint64_t size);

}  // namespace strata::host
