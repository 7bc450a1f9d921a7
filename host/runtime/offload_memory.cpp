#include "runtime/offload_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "strata/error.hpp"

namespace strata::host {
namespace {

std::shared_ptr<std::byte> map_memory(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) return {static_cast<std::byte*>(memory), [size](std::byte* at) { ::munmap(at, size); }};
  throw RuntimeError("no " + std::to_string(bytes) + " bytes of host memory to offload to: " + std::strerror(errno));
}

}  // namespace

OffloadMemory::OffloadMemory(const OffloadBytes& bytes, const std::filesystem::path& directory) : bytes_(bytes) {
  if (bytes.host > 0) host_ = map_memory(bytes.host);
  if (bytes.file > 0) file_.emplace(directory, bytes.file);
}

void OffloadMemory::touch(MemoryPlace place, std::int64_t end) {
  std::int64_t& peak = place == MemoryPlace::host ? peak_.host : peak_.file;
  peak = std::max(peak, end);
}

void OffloadMemory::read(MemoryPlace place, std::int64_t offset, void* data, std::int64_t bytes) const {
  if (place == MemoryPlace::file) return file_.value().read(offset, data, bytes);
  std::memcpy(data, host() + offset, static_cast<std::size_t>(bytes));
}

void OffloadMemory::write(MemoryPlace place, std::int64_t offset, const void* data, std::int64_t bytes) const {
  if (place == MemoryPlace::file) return file_.value().write(offset, data, bytes);
  std::memcpy(host() + offset, data, static_cast<std::size_t>(bytes));
}

std::shared_ptr<OffloadMemory> make_offload_memory(const OffloadBytes& bytes, const std::filesystem::path& directory) {
  if (bytes == OffloadBytes{}) return nullptr;
  return std::make_shared<OffloadMemory>(bytes, directory);
}

}  // namespace strata::host
