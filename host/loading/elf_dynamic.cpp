#include "loading/elf_dynamic.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "loading/elf_segments.hpp"

namespace strata::host {
namespace {

/// An address of the dynamic segment, and what it must point to.
struct AddressTag {
  std::int64_t tag;
  /// The tag of its size in bytes, or 0.
  std::int64_t size_tag;
  /// The type of the section that begins there.
  std::uint32_t section;
  /// Bytes of an entry. Without a size tag there is at least one.
  std::uint64_t entry;
  const char* name;
};

constexpr std::array<AddressTag, 15> kAddressTags{{
    {DT_STRTAB, DT_STRSZ, SHT_STRTAB, 1, "string table"},
    {DT_SYMTAB, 0, SHT_DYNSYM, sizeof(Elf64_Sym), "symbol table"},
    {DT_HASH, 0, SHT_HASH, 8, "hash table"},
    {DT_GNU_HASH, 0, SHT_GNU_HASH, 16, "hash table"},
    {DT_RELA, DT_RELASZ, SHT_RELA, sizeof(Elf64_Rela), "relocation table"},
    {DT_JMPREL, DT_PLTRELSZ, SHT_RELA, sizeof(Elf64_Rela), "relocation table of functions"},
    {36 /* DT_RELR */, 35 /* DT_RELRSZ */, 19 /* SHT_RELR */, 8, "table of relative relocations"},
    {DT_INIT_ARRAY, DT_INIT_ARRAYSZ, SHT_INIT_ARRAY, 8, "table of initialisers"},
    {DT_FINI_ARRAY, DT_FINI_ARRAYSZ, SHT_FINI_ARRAY, 8, "table of finalisers"},
    {DT_INIT, 0, SHT_PROGBITS, 1, "initialiser"},
    {DT_FINI, 0, SHT_PROGBITS, 1, "finaliser"},
    {DT_PLTGOT, 0, SHT_PROGBITS, 8, "offset table"},
    {DT_VERSYM, 0, SHT_GNU_versym, 2, "table of symbol versions"},
    {DT_VERNEED, 0, SHT_GNU_verneed, sizeof(Elf64_Verneed), "table of needed versions"},
    {DT_VERDEF, 0, SHT_GNU_verdef, sizeof(Elf64_Verdef), "table of defined versions"},
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

/// The dynamic segment of a library, judged against its segments.
class DynamicSegment {
 public:
  DynamicSegment(const LibraryFile& file, const std::vector<Elf64_Phdr>& segments,
                 const std::vector<Elf64_Shdr>& sections)
      : file_(file), segments_(segments), sections_(sections) {}

  void check() {
    read();
    for (const AddressTag& each : kAddressTags) check_address(each);
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
  /// Bytes of the file that are loaded at `address` and after it, at most `count`. Throws if there are fewer.
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t address, std::uint64_t count, const std::string& name) const {
    for (const Elf64_Phdr& each : segments_) {
      if (each.p_type != PT_LOAD || address < each.p_vaddr) continue;
      if (fits(address - each.p_vaddr, count, each.p_filesz)) return each.p_offset + (address - each.p_vaddr);
    }
    refuse_damaged("its " + name + " is not within it");
  }

  [[nodiscard]] bool is_written(std::uint64_t address) const {
    return std::any_of(segments_.begin(), segments_.end(), [&](const Elf64_Phdr& each) {
      return each.p_type == PT_LOAD && (each.p_flags & PF_W) != 0 && address >= each.p_vaddr &&
             fits(address - each.p_vaddr, 8, each.p_memsz);
    });
  }

  void read() {
    const auto is_dynamic = [](const Elf64_Phdr& each) { return each.p_type == PT_DYNAMIC; };
    const auto dynamic = std::find_if(segments_.begin(), segments_.end(), is_dynamic);
    if (std::count_if(segments_.begin(), segments_.end(), is_dynamic) != 1) {
      refuse_damaged("it has none or several dynamic segments");
    }
    if (offset_of(dynamic->p_vaddr, dynamic->p_filesz, "dynamic segment") != dynamic->p_offset) {
      refuse_damaged("its dynamic segment is loaded elsewhere");
    }
    std::vector<Elf64_Dyn> entries(dynamic->p_filesz / sizeof(Elf64_Dyn));
    file_.read(dynamic->p_offset, entries.data(), entries.size() * sizeof(Elf64_Dyn));
    for (const Elf64_Dyn& entry : entries) {
      if (entry.d_tag == DT_NULL) return;
      values_[entry.d_tag] = entry.d_un.d_val;
      const std::int64_t tag = entry.d_tag;
      if (tag == DT_NEEDED || tag == DT_SONAME || tag == DT_RPATH || tag == DT_RUNPATH || tag == DT_AUXILIARY ||
          tag == DT_FILTER) {
        names_.push_back(entry.d_un.d_val);
      }
    }
    refuse_damaged("its dynamic segment has no end");
  }

  void check_address(const AddressTag& address) {
    const bool has_size = address.size_tag != 0;
    const bool is_there = values_.contains(address.tag);
    if (has_size && is_there != values_.contains(address.size_tag)) {
      refuse_damaged("its " + std::string(address.name) + " has an address or a size, but not both");
    }
    if (!is_there) return;
    const std::uint64_t size = has_size ? values_[address.size_tag] : address.entry;
    if (size % address.entry != 0) refuse_damaged("its " + std::string(address.name) + " ends within an entry");
    (void)offset_of(values_[address.tag], size, address.name);
    // Some linkers count the second table of relocations in the first.
    const bool has_own_size = has_size && address.tag != DT_RELA;
    const bool is_section = std::any_of(sections_.begin(), sections_.end(), [&](const Elf64_Shdr& each) {
      return each.sh_type == address.section && each.sh_addr == values_[address.tag] &&
             (has_own_size ? each.sh_size == size : each.sh_size <= size || !has_size);
    });
    if (!is_section) refuse_damaged("its " + std::string(address.name) + " is no section");
  }

  /// Checks that the loader is told of every section that it uses.
  void check_sections() {
    for (const Elf64_Shdr& section : sections_) {
      if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_type == SHT_PROGBITS || section.sh_type == SHT_STRTAB)
        continue;
      bool is_used = false;
      bool is_told = false;
      for (const AddressTag& each : kAddressTags) {
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
    if (std::any_of(names_.begin(), names_.end(), [&](std::uint64_t name) { return name >= size; })) {
      refuse_damaged("the name of a library is not in its string table");
    }
  }

  /// Relocations write to memory, and read symbols.
  void check_relocations(std::int64_t tag, std::int64_t size_tag) {
    const bool writes_to_code = values_.contains(DT_TEXTREL) || (values_[DT_FLAGS] & DF_TEXTREL) != 0;
    if (!values_.contains(tag) || writes_to_code) return;
    std::vector<Elf64_Rela> relocations(values_[size_tag] / sizeof(Elf64_Rela));
    const std::uint64_t bytes = relocations.size() * sizeof(Elf64_Rela);
    file_.read(offset_of(values_[tag], bytes, "relocation table"), relocations.data(), bytes);
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
  const std::vector<Elf64_Phdr>& segments_;
  const std::vector<Elf64_Shdr>& sections_;
  std::map<std::int64_t, std::uint64_t> values_;
  /// Offsets of libraries' names in the string table.
  std::vector<std::uint64_t> names_;
};

}  // namespace

void check_dynamic_segment(const LibraryFile& file, const std::vector<Elf64_Phdr>& segments,
                           const std::vector<Elf64_Shdr>& sections) {
  DynamicSegment(file, segments, sections).check();
}

}  // namespace strata::host
