#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>

#include "loading/plugin_file.hpp"

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

using Segments = std::vector<Elf64_Phdr>;
using Sections = std::vector<Elf64_Shdr>;

[[noreturn]] void refuse_damaged(const std::string& found) {
  throw PluginFileError("it is a damaged or truncated ELF file: " + found);
}

/// True if `count` bytes from `offset` on lie within `size` bytes, for any numbers.
bool fits(std::uint64_t offset, std::uint64_t count, std::uint64_t size) {
  return offset <= size && count <= size - offset;
}

template <class Entry>
std::vector<Entry> read_table(const LibraryFile& file, std::uint64_t offset, std::uint64_t count) {
  std::vector<Entry> table(count);
  file.read(offset, table.data(), count * sizeof(Entry));
  return table;
}

Elf64_Ehdr read_header(const LibraryFile& file) {
  Elf64_Ehdr header{};
  if (file.size() < sizeof(header)) {
    throw PluginFileError(fmt::format("it is no ELF file: it has only {} bytes", file.size()));
  }
  file.read(0, &header, sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) throw PluginFileError("it is no ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    throw PluginFileError("it is no 64-bit little-endian ELF file");
  }
  if (header.e_type != ET_DYN) throw PluginFileError("it is an ELF file, but no shared library");
  if (header.e_machine != kMachine) {
    throw PluginFileError(
        fmt::format("it is built for another processor (ELF machine {}); accepted: {}", header.e_machine, kMachine));
  }
  return header;
}

Segments read_segments(const LibraryFile& file, const Elf64_Ehdr& header) {
  const std::uint64_t bytes = std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (header.e_phnum == 0 || header.e_phentsize != sizeof(Elf64_Phdr) || !fits(header.e_phoff, bytes, file.size())) {
    refuse_damaged("its segment table is not within it");
  }
  return read_table<Elf64_Phdr>(file, header.e_phoff, header.e_phnum);
}

/// Checks that the loaded segments lie one after another, and that all others lie within them. A segment beyond the end
/// of the file would cause a bus error.
void check_places(const LibraryFile& file, const Segments& segments) {
  std::uint64_t end = 0;
  for (const Elf64_Phdr& each : segments) {
    if (each.p_type != PT_LOAD && each.p_type != PT_DYNAMIC) continue;
    if (!fits(each.p_offset, each.p_filesz, file.size()) || each.p_filesz > each.p_memsz) {
      refuse_damaged(fmt::format("a segment lies beyond its end at byte {}", file.size()));
    }
    if (each.p_type != PT_LOAD) continue;
    if (each.p_vaddr < end || !fits(each.p_vaddr, each.p_memsz, INT64_MAX)) {
      refuse_damaged("its segments overlap in memory");
    }
    end = each.p_vaddr + each.p_memsz;
  }
  const auto is_loaded = [&](const Elf64_Phdr& part) {
    return std::ranges::any_of(segments, [&](const Elf64_Phdr& each) {
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

/// Reads the section headers that the file header refers to.
Sections read_sections(const LibraryFile& file, const Elf64_Ehdr& header) {
  if (header.e_shoff == 0 || header.e_shnum == 0) {
    throw PluginFileError("it is a damaged ELF file: it has no section table");
  }
  if (header.e_shentsize != sizeof(Elf64_Shdr)) {
    throw PluginFileError(fmt::format("it is a damaged ELF file: its section headers have {} bytes instead of {}",
                                      header.e_shentsize, sizeof(Elf64_Shdr)));
  }
  if (!fits(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), file.size())) {
    refuse_damaged(fmt::format("its section table lies beyond its end at byte {}", file.size()));
  }
  return read_table<Elf64_Shdr>(file, header.e_shoff, header.e_shnum);
}

/// A table whose address the dynamic segment has, and the section that it must be.
struct DynamicTable {
  std::int64_t tag;
  /// The tag of its size in bytes, or 0.
  std::int64_t size_tag;
  /// The type of the section.
  std::uint32_t section;
  const char* name;
};

constexpr std::array<DynamicTable, 15> kTables{{
    {DT_STRTAB, DT_STRSZ, SHT_STRTAB, "string table"},
    {DT_SYMTAB, 0, SHT_DYNSYM, "symbol table"},
    {DT_HASH, 0, SHT_HASH, "hash table"},
    {DT_GNU_HASH, 0, SHT_GNU_HASH, "hash table"},
    {DT_RELA, DT_RELASZ, SHT_RELA, "relocation table"},
    {DT_JMPREL, DT_PLTRELSZ, SHT_RELA, "relocation table of functions"},
    {36 /* DT_RELR */, 35 /* DT_RELRSZ */, 19 /* SHT_RELR */, "table of relative relocations"},
    {DT_INIT_ARRAY, DT_INIT_ARRAYSZ, SHT_INIT_ARRAY, "table of initialisers"},
    {DT_FINI_ARRAY, DT_FINI_ARRAYSZ, SHT_FINI_ARRAY, "table of finalisers"},
    {DT_INIT, 0, SHT_PROGBITS, "initialiser"},
    {DT_FINI, 0, SHT_PROGBITS, "finaliser"},
    {DT_PLTGOT, 0, SHT_PROGBITS, "offset table"},
    {DT_VERSYM, 0, SHT_GNU_versym, "table of symbol versions"},
    {DT_VERNEED, 0, SHT_GNU_verneed, "table of needed versions"},
    {DT_VERDEF, 0, SHT_GNU_verdef, "table of defined versions"},
}};

/// A tag without which the loader does not read a table, and the only value that it accepts.
struct FixedTag {
  std::int64_t table;
  std::int64_t tag;
  std::uint64_t value;
};

constexpr std::array<FixedTag, 3> kFixedTags{{{DT_SYMTAB, DT_SYMENT, sizeof(Elf64_Sym)},
                                              {DT_RELA, DT_RELAENT, sizeof(Elf64_Rela)},
                                              {DT_JMPREL, DT_PLTREL, DT_RELA}}};

/// The dynamic segment of a library, whose addresses and sizes the dynamic loader follows without a check.
class DynamicSegment {
 public:
  DynamicSegment(const LibraryFile& file, const Segments& segments, const Sections& sections)
      : file_(file), segments_(segments), sections_(sections) {}

  void check() {
    read();
    for (const DynamicTable& each : kTables) check_table(each);
    for (const FixedTag& each : kFixedTags) {
      if (values_.contains(each.table) && (!values_.contains(each.tag) || values_[each.tag] != each.value)) {
        refuse_damaged("its dynamic segment has a wrong constant");
      }
    }
    if (!values_.contains(DT_STRTAB) || !values_.contains(DT_SYMTAB)) {
      refuse_damaged("its dynamic segment lacks the symbols or their names");
    }
    check_sections();
    check_names();
    check_relocations(DT_RELA, DT_RELASZ);
    check_relocations(DT_JMPREL, DT_PLTRELSZ);
  }

 private:
  /// Offset of the `count` bytes that are loaded at `address`. Refuses a file that has fewer.
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t address, std::uint64_t count, const char* name) const {
    for (const Elf64_Phdr& each : segments_) {
      if (each.p_type != PT_LOAD || address < each.p_vaddr) continue;
      if (fits(address - each.p_vaddr, count, each.p_filesz)) return each.p_offset + (address - each.p_vaddr);
    }
    refuse_damaged(fmt::format("its {} is not within it", name));
  }

  [[nodiscard]] bool is_written(std::uint64_t address) const {
    return std::ranges::any_of(segments_, [&](const Elf64_Phdr& each) {
      return each.p_type == PT_LOAD && (each.p_flags & PF_W) != 0 && address >= each.p_vaddr &&
             fits(address - each.p_vaddr, 8, each.p_memsz);
    });
  }

  void read() {
    const auto is_dynamic = [](const Elf64_Phdr& each) { return each.p_type == PT_DYNAMIC; };
    const auto dynamic = std::ranges::find_if(segments_, is_dynamic);
    if (std::ranges::count_if(segments_, is_dynamic) != 1) {
      refuse_damaged("it has none or several dynamic segments");
    }
    if (offset_of(dynamic->p_vaddr, dynamic->p_filesz, "dynamic segment") != dynamic->p_offset) {
      refuse_damaged("its dynamic segment is loaded elsewhere");
    }
    for (const Elf64_Dyn& entry :
         read_table<Elf64_Dyn>(file_, dynamic->p_offset, dynamic->p_filesz / sizeof(Elf64_Dyn))) {
      const std::int64_t tag = entry.d_tag;
      if (tag == DT_NULL) return;
      values_[tag] = entry.d_un.d_val;
      if (tag == DT_NEEDED || tag == DT_SONAME || tag == DT_RPATH || tag == DT_RUNPATH || tag == DT_AUXILIARY ||
          tag == DT_FILTER) {
        names_.push_back(entry.d_un.d_val);
      }
    }
    refuse_damaged("its dynamic segment has no end");
  }

  /// Checks that a table is a loaded section of the same size.
  void check_table(const DynamicTable& table) {
    const bool has_size = table.size_tag != 0;
    const bool is_there = values_.contains(table.tag);
    if (has_size && is_there != values_.contains(table.size_tag)) {
      refuse_damaged(fmt::format("its {} has an address or a size, but not both", table.name));
    }
    if (!is_there) return;
    const auto section = std::ranges::find_if(sections_, [&](const Elf64_Shdr& each) {
      if (each.sh_type != table.section || each.sh_addr != values_[table.tag]) return false;
      // Some linkers count the second table of relocations in the first.
      return !has_size || each.sh_size == values_[table.size_tag] ||
             (table.tag == DT_RELA && each.sh_size < values_[table.size_tag]);
    });
    if (section == sections_.end()) refuse_damaged(fmt::format("its {} is no section", table.name));
    // The loader reads the beginning of a table before it knows how long it is.
    constexpr std::uint64_t kBeginning = sizeof(Elf64_Sym);
    const std::uint64_t least = section->sh_type == SHT_PROGBITS ? 1 : std::min(section->sh_size, kBeginning);
    (void)offset_of(section->sh_addr, has_size ? values_[table.size_tag] : least, table.name);
  }

  /// Checks that the loader is told of every section that it uses.
  void check_sections() {
    for (const Elf64_Shdr& section : sections_) {
      if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_type == SHT_PROGBITS || section.sh_type == SHT_STRTAB)
        continue;
      bool is_used = false;
      bool is_told = false;
      for (const DynamicTable& each : kTables) {
        if (each.section != section.sh_type) continue;
        is_used = true;
        if (!values_.contains(each.tag)) continue;
        const std::uint64_t begin = values_[each.tag];
        const std::uint64_t size = each.size_tag == 0 ? 1 : values_[each.size_tag];
        is_told = is_told || (section.sh_addr >= begin && fits(section.sh_addr - begin, 1, size));
      }
      if (is_used && !is_told) refuse_damaged("its dynamic segment leaves out a section");
    }
  }

  void check_names() {
    const std::uint64_t size = values_[DT_STRSZ];
    char last = '\0';
    if (size > 0) file_.read(offset_of(values_[DT_STRTAB], size, "string table") + size - 1, &last, 1);
    if (size == 0 || last != '\0') refuse_damaged("its string table has no end");
    if (std::ranges::any_of(names_, [&](std::uint64_t name) { return name >= size; })) {
      refuse_damaged("the name of a library is not in its string table");
    }
  }

  /// Relocations write to memory, and read symbols.
  void check_relocations(std::int64_t tag, std::int64_t size_tag) {
    const bool writes_to_code = values_.contains(DT_TEXTREL) || (values_[DT_FLAGS] & DF_TEXTREL) != 0;
    if (!values_.contains(tag) || writes_to_code) return;
    if (values_[size_tag] % sizeof(Elf64_Rela) != 0) refuse_damaged("its relocation table ends within an entry");
    const auto relocations = read_table<Elf64_Rela>(
        file_, offset_of(values_[tag], values_[size_tag], "relocation table"), values_[size_tag] / sizeof(Elf64_Rela));
    // The loader takes the first ones, as many as the segment says, for relative ones.
    if (tag == DT_RELA && values_[DT_RELACOUNT] > relocations.size()) refuse_damaged("it counts too many relocations");
    const auto relative = relocations.begin() + static_cast<std::ptrdiff_t>(tag == DT_RELA ? values_[DT_RELACOUNT] : 0);
    if (std::any_of(relocations.begin(), relative,
                    [&](const Elf64_Rela& each) { return each.r_info != relocations.front().r_info; })) {
      refuse_damaged("it counts too many relocations");
    }
    std::uint64_t last_symbol = 0;
    for (const Elf64_Rela& each : relocations) {
      if (ELF64_R_TYPE(each.r_info) == 0) continue;
      if (!is_written(each.r_offset)) refuse_damaged("a relocation writes where the library has no data");
      last_symbol = std::max<std::uint64_t>(last_symbol, ELF64_R_SYM(each.r_info));
    }
    (void)offset_of(values_[DT_SYMTAB], (last_symbol + 1) * sizeof(Elf64_Sym), "symbol of a relocation");
  }

  const LibraryFile& file_;
  const Segments& segments_;
  const Sections& sections_;
  std::map<std::int64_t, std::uint64_t> values_;
  /// Offsets of libraries' names in the string table.
  std::vector<std::uint64_t> names_;
};

void check_extent(const LibraryFile& file, const Elf64_Shdr& section, const std::string& what) {
  if (section.sh_type == SHT_NOBITS || !fits(section.sh_offset, section.sh_size, file.size())) {
    refuse_damaged(fmt::format("{} lies beyond its end at byte {}", what, file.size()));
  }
}

}  // namespace

ElfFile::ElfFile(const LibraryFile& file) : file_(file) {
  const Elf64_Ehdr header = read_header(file);
  const Segments segments = read_segments(file, header);
  check_places(file, segments);
  sections_ = read_sections(file, header);
  DynamicSegment(file, segments, sections_).check();
  if (header.e_shstrndx >= sections_.size()) {
    throw PluginFileError(fmt::format("it is a damaged ELF file: the table of section names has the number {} of {}",
                                      header.e_shstrndx, sections_.size()));
  }
  names_ = sections_[header.e_shstrndx];
  check_extent(file, names_, "the table of section names");
}

std::optional<std::vector<std::uint8_t>> ElfFile::read(const std::string& name, std::uint64_t limit) const {
  const std::string wanted = name + '\0';
  for (const Elf64_Shdr& section : sections_) {
    if (!fits(section.sh_name, wanted.size(), names_.sh_size)) continue;
    const auto found = read_table<char>(file_, names_.sh_offset + section.sh_name, wanted.size());
    if (!std::equal(found.begin(), found.end(), wanted.begin())) continue;
    check_extent(file_, section, "the section " + name);
    return read_table<std::uint8_t>(file_, section.sh_offset, std::min(section.sh_size, limit));
  }
  return std::nullopt;
}

}  // namespace strata::host
