#include "checkpoint/copy_ring.hpp"

#include <algorithm>
#include <utility>

#include "strata/error.hpp"

namespace strata::host {

CopyRing::CopyRing(std::shared_ptr<void> memory, std::int64_t bytes, std::vector<RankPiece> pieces)
    : memory_(std::move(memory)), bytes_(bytes), pieces_(std::move(pieces)) {
  if (bytes_ % 8 != 0 || (bytes_ == 0 && !pieces_.empty())) {
    throw VerificationError("the copy of a checkpoint has " + std::to_string(bytes_) + " bytes");
  }
}

void CopyRing::restart() {
  const std::lock_guard lock(mutex_);
  filled_ = taken_ = lent_ = 0;
  fills_ = takes_ = true;
  piece_ = 0;
  element_ = 0;
}

/// Bytes that can be filled now. -1: nobody takes any more.
std::int64_t CopyRing::room() {
  const std::lock_guard lock(mutex_);
  return takes_ ? bytes_ - (filled_ - taken_) : -1;
}

bool CopyRing::fill(const ReadSlice& read) {
  auto* memory = static_cast<std::byte*>(memory_.get());
  while (piece_ < pieces_.size()) {
    const RankPiece& piece = pieces_[piece_];
    const auto size = static_cast<std::int64_t>(size_of(piece.tensor.dtype));
    const std::int64_t free = room();
    if (free < 0) return true;
    // Pieces are sorted by the size of their elements, so that each begins at a multiple of that size.
    const std::int64_t offset = filled_ % bytes_;
    const std::int64_t elements = std::min({free, bytes_ - offset, (piece.source.elements - element_) * size}) / size;
    if (elements == 0) return false;
    read({piece.source.buffer, piece.source.begin + element_, elements}, memory + offset);
    element_ += elements;
    if (element_ == piece.source.elements) {
      ++piece_;
      element_ = 0;
    }
    const std::lock_guard lock(mutex_);
    filled_ += elements * size;
    changed_.notify_all();
  }
  return true;
}

std::span<const std::byte> CopyRing::take(std::size_t most) {
  std::unique_lock lock(mutex_);
  taken_ += std::exchange(lent_, 0);
  changed_.wait(lock, [&] { return filled_ > taken_ || !fills_; });
  if (filled_ == taken_) throw RuntimeError("the run ended before the checkpoint was copied");
  const std::int64_t offset = taken_ % bytes_;
  lent_ = std::min({static_cast<std::int64_t>(most), filled_ - taken_, bytes_ - offset});
  return {static_cast<const std::byte*>(memory_.get()) + offset, static_cast<std::size_t>(lent_)};
}

void CopyRing::stop_filling() {
  const std::lock_guard lock(mutex_);
  fills_ = false;
  changed_.notify_all();
}

void CopyRing::stop_taking() {
  const std::lock_guard lock(mutex_);
  takes_ = false;
}

}  // namespace strata::host
