#include "strata/internal/library_file.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "judged_path.hpp"
#include "strata/error.hpp"

namespace strata {
namespace {

/// A loaded library, as the dynamic loader describes it.
struct Image {
  ElfW(Addr) base = 0;
  std::string name;
  std::vector<ElfW(Phdr)> headers;
};

/// Describes the library of `handle`, a result of dlopen(). It is empty if the loader does not know the handle.
/// The loader's own link_map is not read: the thread sanitizer does not see the loader's lock, under which another
/// thread may have written it, whereas it knows dl_iterate_phdr().
Image image_of(void* handle) {
  struct Search {
    const ElfW(Phdr) * headers = nullptr;
    Image image;
  } search;
  if (::dlinfo(handle, RTLD_DI_PHDR, &search.headers) < 0) return {};
  const auto compare = [](dl_phdr_info* info, std::size_t /*size*/, void* argument) {
    auto* wanted = static_cast<Search*>(argument);
    if (info->dlpi_phdr != wanted->headers) return 0;
    wanted->image = {info->dlpi_addr, info->dlpi_name, {info->dlpi_phdr, info->dlpi_phdr + info->dlpi_phnum}};
    return 1;
  };
  ::dl_iterate_phdr(compare, &search);
  return std::move(search.image);
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
  return std::ranges::any_of(headers, [&](const ElfW(Phdr) & segment) {
    // No sum of the file's numbers is formed, because it may overflow.
    return segment.p_type == PT_LOAD && note.p_vaddr >= segment.p_vaddr && note.p_filesz <= segment.p_filesz &&
           note.p_vaddr - segment.p_vaddr <= segment.p_filesz - note.p_filesz;
  });
}

/// True if the loaded library has the program headers and notes of `file`. A linker writes its build ID, a hash of the
/// whole library, into the notes.
bool has_headers_of(const Image& image, const LibraryFile& file) {
  const std::vector<ElfW(Phdr)> headers = headers_of(file);
  const std::size_t bytes = headers.size() * sizeof(ElfW(Phdr));
  if (headers.empty() || image.headers.size() != headers.size() ||
      std::memcmp(image.headers.data(), headers.data(), bytes) != 0) {
    return false;
  }
  // The program headers are equal, so that a note lies in memory where the file says.
  return std::ranges::all_of(headers, [&](const ElfW(Phdr) & note) {
    if (note.p_type != PT_NOTE || !is_loaded(note, headers)) return true;
    std::vector<char> text(note.p_filesz);
    file.read(note.p_offset, text.data(), text.size());
    return std::memcmp(reinterpret_cast<const void*>(image.base + note.p_vaddr), text.data(), text.size()) == 0;
  });
}

std::int64_t modification_time(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

bool is_same_file(const char* path, const struct stat& status) {
  struct stat other {};
  return ::stat(path, &other) == 0 && other.st_dev == status.st_dev && other.st_ino == status.st_ino;
}

std::string load_error(const std::string& library) {
  const char* error = ::dlerror();
  std::string reason = error == nullptr ? "the loader gives no reason" : error;
  if (const std::string prefix = library + ": "; reason.starts_with(prefix)) reason = reason.substr(prefix.size());
  return reason;
}

/// Libraries stay loaded, because threads that they have started would continue in unmapped code.
constexpr int kForGood = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;

}  // namespace

LibraryFile::LibraryFile(const std::filesystem::path& path) {
  JudgedPath judged = open_judged(path);
  struct stat status {};
  if (::fstat(judged.file.number(), &status) != 0) {
    throw ConfigurationError(std::string("it cannot be read: ") + std::strerror(errno));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  modified_ = modification_time(status);
  path_ = std::move(judged.path);
  distrust_ = std::move(judged.distrust);
  warnings_ = std::move(judged.warnings);
  descriptor_ = judged.file.release();
}

LibraryFile::~LibraryFile() { ::close(descriptor_); }

void LibraryFile::read(std::uint64_t offset, void* destination, std::uint64_t count) const {
  auto* bytes = static_cast<std::uint8_t*>(destination);
  while (count > 0) {
    const ssize_t done = ::pread(descriptor_, bytes, count, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw ConfigurationError(std::string("it cannot be read: ") + std::strerror(errno));
    if (done == 0) throw ConfigurationError("it is a truncated file: it ends at byte " + std::to_string(offset));
    bytes += done;
    offset += static_cast<std::uint64_t>(done);
    count -= static_cast<std::uint64_t>(done);
  }
}

void LibraryFile::require_unchanged() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && static_cast<std::uint64_t>(status.st_size) == size_ &&
      modification_time(status) == modified_ && is_same_file(path_.c_str(), status)) {
    return;
  }
  throw ConfigurationError("it was changed or replaced after it had been inspected; start again");
}

// Loading goes by the path, not by /proc/self/fd/<descriptor>. Under the latter name $ORIGIN is /proc/self/fd, so that
// a plugin's private libraries are not found; the loader takes a reused descriptor number for the library that had it
// before; and debuggers look for the code in their own descriptors.
//
// The path leads to the descriptor's file nevertheless:
// - Root and the user are the only ones who can change an entry of a folder on the path (open_judged). For anyone else,
//   the path therefore leads to the file that was judged, always.
// - Root or the user may replace the file, as an upgrade does. Before loading, the path must still lead to the
//   descriptor's file with its time and size. After loading, the name that the loader used must do so as well, and the
//   headers and notes in memory must be the descriptor's. The latter also finds an older file of that path, which this
//   process loaded before it was replaced and which the loader returns by its name.
void LibraryFile::require_loaded(void* handle) const {
  require_unchanged();
  struct stat status {};
  const Image image = image_of(handle);
  if (::fstat(descriptor_, &status) == 0 && is_same_file(image.name.c_str(), status) && has_headers_of(image, *this)) {
    return;
  }
  throw ConfigurationError("another file was loaded from this path before; start again");
}

void* LibraryFile::load() const {
  if (!distrust_.empty()) throw ConfigurationError(distrust_);
  require_unchanged();
  void* handle = ::dlopen(path_.c_str(), kForGood);
  if (handle == nullptr) throw ConfigurationError(load_error(path_.string()));
  require_loaded(handle);
  return handle;
}

void* load_library(const std::string& library) {
  if (library.find('/') == std::string::npos) {
    if (void* handle = ::dlopen(library.c_str(), kForGood)) return handle;
    throw ConfigurationError(library + ": " + load_error(library));
  }
  try {
    return LibraryFile(library).load();
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(library + ": " + error.what());
  }
}

}  // namespace strata
