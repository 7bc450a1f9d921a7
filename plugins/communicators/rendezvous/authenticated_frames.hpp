#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "protocol.hpp"

namespace strata::rendezvous {

/// \file
/// Frames that only the two ends of a connection can make. Each direction has its key and counts its frames:
///
///     header  5 bytes   length and kind
///     tag    16 bytes   of the frame's number and the header, under the key
///     contents
///     tag    16 bytes   of the frame's number, the header and the contents; only if there are contents
///
/// A frame that was altered, repeated, left out, or moved has a wrong tag. The header has a tag of its own, because the
/// receiver waits for as many bytes as the header says.

/// Writes the frames of one direction.
class FrameWriter {
 public:
  explicit FrameWriter(std::string key) : key_(std::move(key)) {}
  [[nodiscard]] std::string write(const Frame& frame);

 private:
  std::string key_;
  std::uint64_t count_ = 0;
};

/// Reads the frames of one direction.
class FrameReader {
 public:
  explicit FrameReader(std::string key) : key_(std::move(key)) {}
  /// Removes the first complete frame from `bytes` and returns it. \throws RuntimeError if it is not the next frame
  /// that the holder of the key has written.
  [[nodiscard]] std::optional<Frame> read(std::string& bytes);

 private:
  std::string key_;
  std::uint64_t count_ = 0;
  /// The header at the beginning of the bytes has been checked.
  bool header_is_true_ = false;
};

}  // namespace strata::rendezvous
