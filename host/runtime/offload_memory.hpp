#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "compiler/memory/memory_plan.hpp"
#include "runtime/offload_file.hpp"
#include "strata/memory_place.hpp"

namespace strata::host {

/// A rank's memory outside of its device, zeroed: exactly the planned bytes. The programs of a rank share it as they
/// share its arena.
class OffloadMemory {
 public:
  /// `directory`: where the file lies, if one is needed. \throws RuntimeError where there is not enough room.
  OffloadMemory(const OffloadBytes& bytes, const std::filesystem::path& directory);

  [[nodiscard]] const OffloadBytes& bytes() const { return bytes_; }
  /// Highest bytes that have been used so far.
  [[nodiscard]] const OffloadBytes& peak() const { return peak_; }
  void touch(MemoryPlace place, std::int64_t end);

  /// Host memory of MemoryPlace::host.
  [[nodiscard]] std::byte* host() const { return host_.get(); }
  /// Copies from or to any place but the device.
  void read(MemoryPlace place, std::int64_t offset, void* data, std::int64_t bytes) const;
  void write(MemoryPlace place, std::int64_t offset, const void* data, std::int64_t bytes) const;

 private:
  OffloadBytes bytes_;
  OffloadBytes peak_;
  std::shared_ptr<std::byte> host_;
  std::optional<OffloadFile> file_;
};

/// What a rank needs outside of its device; null where that is nothing.
[[nodiscard]] std::shared_ptr<OffloadMemory> make_offload_memory(const OffloadBytes& bytes,
                                                                 const std::filesystem::path& directory);

}  // namespace strata::host
