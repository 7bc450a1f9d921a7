#pragma once

#include <elf.h>

#include <vector>

#include "strata/internal/library_file.hpp"

namespace strata::host {

/// Judges the dynamic segment, whose addresses and sizes the dynamic loader follows without a check: a damaged one ends
/// the process. Each must be that of a section, since the file has these numbers twice. Relocations may write to data
/// only. Damage of what the addresses point to, such as code, is not found. \throws PluginFileError for a damaged file.
void check_dynamic_segment(const LibraryFile& file, const std::vector<Elf64_Phdr>& segments,
                           const std::vector<Elf64_Shdr>& sections);

}  // namespace strata::host
