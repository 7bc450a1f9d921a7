#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "language/stream.hpp"

namespace strata::cuda {

/// Copies between a GPU and host memory that its copy engines cannot read: in chunks through pinned memory, so that
/// the engine works on one chunk while the processor moves the next. For one stream.
class Staging {
 public:
  /// `host` may change when this returns.
  void copy_from_host(Stream stream, void* device, const void* host, std::int64_t bytes);
  /// Returns when the data is there.
  void copy_to_host(Stream stream, void* host, const void* device, std::int64_t bytes);

 private:
  struct Chunk {
    std::shared_ptr<void> memory;
    /// The end of the last copy.
    std::shared_ptr<void> copied;
  };
  /// Not allocated before it is needed.
  Chunk& chunk(std::int64_t number);

  std::array<Chunk, 2> chunks_;
};

}  // namespace strata::cuda
