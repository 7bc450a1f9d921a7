#include "loaded_image.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace strata {
namespace {

/// A loaded library's program headers, as the dynamic loader uses them.
struct Image {
  ElfW(Addr) base = 0;
  std::vector<ElfW(Phdr)> headers;
};

int find_image(dl_phdr_info* info, std::size_t /*size*/, void* result) {
  auto* image = static_cast<Image*>(result);
  if (info->dlpi_addr != image->base) return 0;
  image->headers.assign(info->dlpi_phdr, info->dlpi_phdr + info->dlpi_phnum);
  return 1;
}

Image image_of(void* handle) {
  link_map* map = nullptr;
  Image image;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return image;
  image.base = map->l_addr;
  ::dl_iterate_phdr(find_image, &image);
  return image;
}

std::vector<ElfW(Phdr)> headers_of(const LibraryFile& file) {
  ElfW(Ehdr) header{};
  file.read(0, &header, sizeof header);
  if (header.e_phentsize != sizeof(ElfW(Phdr))) return {};
  std::vector<ElfW(Phdr)> headers(header.e_phnum);
  file.read(header.e_phoff, headers.data(), headers.size() * sizeof(ElfW(Phdr)));
  return headers;
}

bool is_loaded(const ElfW(Phdr) & note, const std::vector<ElfW(Phdr)>& headers) {
  return std::any_of(headers.begin(), headers.end(), [&](const ElfW(Phdr) & segment) {
    // No sum of the file's numbers is formed, because it may overflow.
    return segment.p_type == PT_LOAD && note.p_vaddr >= segment.p_vaddr && note.p_filesz <= segment.p_filesz &&
           note.p_vaddr - segment.p_vaddr <= segment.p_filesz - note.p_filesz;
  });
}

}  // namespace

bool has_headers_of(void* handle, const LibraryFile& file) {
  const Image image = image_of(handle);
  const std::vector<ElfW(Phdr)> headers = headers_of(file);
  const std::size_t bytes = headers.size() * sizeof(ElfW(Phdr));
  if (headers.empty() || image.headers.size() != headers.size() ||
      std::memcmp(image.headers.data(), headers.data(), bytes) != 0) {
    return false;
  }
  // The program headers are equal, so that a note lies in memory where the file says.
  return std::all_of(headers.begin(), headers.end(), [&](const ElfW(Phdr) & note) {
    if (note.p_type != PT_NOTE || !is_loaded(note, headers)) return true;
    std::vector<char> text(note.p_filesz);
    file.read(note.p_offset, text.data(), text.size());
    return std::memcmp(reinterpret_cast<const void*>(image.base + note.p_vaddr), text.data(), text.size()) == 0;
  });
}

}  // namespace strata
