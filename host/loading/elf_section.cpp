#include "loading/elf_section.hpp"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "loading/elf_dynamic.hpp"
#include "loading/elf_segments.hpp"

namespace strata::host {
namespace {

static_assert(std::endian::native == std::endian::little, "Strata reads ELF files of little-endian machines only.");

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr std::uint16_t kMachine = EM_RISCV;
#else
#error "Name this processor's ELF machine number here."
#endif

Elf64_Ehdr read_header(const LibraryFile& file) {
  Elf64_Ehdr header{};
  if (file.size() < sizeof(header))
    throw PluginFileError("it is no ELF file: it has only " + std::to_string(file.size()) + " bytes");
  file.read(0, &header, sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) throw PluginFileError("it is no ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    throw PluginFileError("it is no 64-bit little-endian ELF file");
  }
  if (header.e_type != ET_DYN) throw PluginFileError("it is an ELF file, but no shared library");
  if (header.e_machine != kMachine) {
    throw PluginFileError("it is built for another processor (ELF machine " + std::to_string(header.e_machine) +
                          "); accepted: " + std::to_string(kMachine));
  }
  return header;
}

bool lies_within(const LibraryFile& file, std::uint64_t offset, std::uint64_t count) {
  return fits(offset, count, file.size());
}

/// Reads the section headers that the file header refers to.
std::vector<Elf64_Shdr> read_section_table(const LibraryFile& file, const Elf64_Ehdr& header) {
  if (header.e_shoff == 0 || header.e_shnum == 0)
    throw PluginFileError("it is a damaged ELF file: it has no section table");
  if (header.e_shentsize != sizeof(Elf64_Shdr)) {
    throw PluginFileError("it is a damaged ELF file: its section headers have " + std::to_string(header.e_shentsize) +
                          " bytes instead of " + std::to_string(sizeof(Elf64_Shdr)));
  }
  const std::uint64_t bytes = std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  if (!lies_within(file, header.e_shoff, bytes)) {
    throw PluginFileError("it is a damaged or truncated ELF file: its section table lies beyond its end at byte " +
                          std::to_string(file.size()));
  }
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  file.read(header.e_shoff, sections.data(), bytes);
  return sections;
}

void check_extent(const LibraryFile& file, const Elf64_Shdr& section, const std::string& what) {
  if (section.sh_type == SHT_NOBITS || !lies_within(file, section.sh_offset, section.sh_size)) {
    throw PluginFileError("it is a damaged or truncated ELF file: " + what + " lies beyond its end at byte " +
                          std::to_string(file.size()));
  }
}

/// True if the name at `offset` of the string table is `name`. Reads only as many bytes as `name` has.
bool has_name(const LibraryFile& file, const Elf64_Shdr& names, std::uint32_t offset, const std::string& name) {
  const std::uint64_t count = name.size() + 1;
  if (offset > names.sh_size || count > names.sh_size - offset) return false;
  std::vector<char> text(count);
  file.read(names.sh_offset + offset, text.data(), count);
  return std::equal(text.begin(), text.end(), name.c_str());
}

}  // namespace

ElfSections::ElfSections(const LibraryFile& file) : file_(file) {
  const Elf64_Ehdr header = read_header(file);
  const std::vector<Elf64_Phdr> segments = read_segments(file, header);
  sections_ = read_section_table(file, header);
  check_dynamic_segment(file, segments, sections_);
  if (header.e_shstrndx >= sections_.size()) {
    throw PluginFileError("it is a damaged ELF file: the table of section names has the number " +
                          std::to_string(header.e_shstrndx) + " of " + std::to_string(sections_.size()));
  }
  names_ = sections_[header.e_shstrndx];
  check_extent(file, names_, "the table of section names");
}

std::optional<std::vector<std::uint8_t>> ElfSections::read(const std::string& name, std::uint64_t limit) const {
  for (const Elf64_Shdr& section : sections_) {
    if (!has_name(file_, names_, section.sh_name, name)) continue;
    check_extent(file_, section, "the section " + name);
    std::vector<std::uint8_t> bytes(std::min<std::uint64_t>(section.sh_size, limit));
    file_.read(section.sh_offset, bytes.data(), bytes.size());
    return bytes;
  }
  return std::nullopt;
}

}  // namespace strata::host
