#include "loading/elf_segments.hpp"

#include <algorithm>

#include "loading/elf_section.hpp"

namespace strata::host {

void refuse_damaged(const std::string& found) {
  throw PluginFileError("it is a damaged or truncated ELF file: " + found);
}

bool fits(std::uint64_t offset, std::uint64_t count, std::uint64_t size) {
  return offset <= size && count <= size - offset;
}

namespace {

std::vector<Elf64_Phdr> read_segment_table(const LibraryFile& file, const Elf64_Ehdr& header) {
  const std::uint64_t bytes = std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (header.e_phnum == 0 || header.e_phentsize != sizeof(Elf64_Phdr) || !fits(header.e_phoff, bytes, file.size())) {
    refuse_damaged("its segment table is not within it");
  }
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  file.read(header.e_phoff, segments.data(), bytes);
  return segments;
}

/// Checks that the loaded segments lie one after another, and that all others lie within them.
void check_places(const LibraryFile& file, const std::vector<Elf64_Phdr>& segments) {
  std::uint64_t end = 0;
  for (const Elf64_Phdr& each : segments) {
    if (each.p_type != PT_LOAD && each.p_type != PT_DYNAMIC) continue;
    if (!fits(each.p_offset, each.p_filesz, file.size()) || each.p_filesz > each.p_memsz) {
      refuse_damaged("a segment lies beyond its end at byte " + std::to_string(file.size()));
    }
    if (each.p_type != PT_LOAD) continue;
    if (each.p_vaddr < end || !fits(each.p_vaddr, each.p_memsz, INT64_MAX)) {
      refuse_damaged("its segments overlap in memory");
    }
    end = each.p_vaddr + each.p_memsz;
  }
  const auto is_loaded = [&](const Elf64_Phdr& part) {
    return std::any_of(segments.begin(), segments.end(), [&](const Elf64_Phdr& each) {
      return each.p_type == PT_LOAD && part.p_vaddr >= each.p_vaddr &&
             fits(part.p_vaddr - each.p_vaddr, part.p_filesz, each.p_filesz);
    });
  };
  for (const Elf64_Phdr& each : segments) {
    const bool is_read = each.p_type == PT_DYNAMIC || each.p_type == PT_NOTE || each.p_type == PT_TLS ||
                         each.p_type == PT_PHDR || each.p_type == PT_GNU_PROPERTY || each.p_type == PT_GNU_EH_FRAME ||
                         each.p_type == PT_GNU_RELRO;
    if (is_read && each.p_filesz > 0 && !is_loaded(each)) refuse_damaged("a segment is not loaded with the others");
  }
}

}  // namespace

std::vector<Elf64_Phdr> read_segments(const LibraryFile& file, const Elf64_Ehdr& header) {
  std::vector<Elf64_Phdr> segments = read_segment_table(file, header);
  check_places(file, segments);
  return segments;
}

}  // namespace strata::host
