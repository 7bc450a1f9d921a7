#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "checkpoint/checkpoint_plan.hpp"
#include "runtime/shards.hpp"

namespace strata::host {

/// Host memory through which a rank's pieces pass from its device to its file. One thread fills it, and another one
/// takes the bytes in the same order. If the memory has room for all pieces, filling never waits for the other thread.
class CopyRing {
 public:
  /// `bytes` of `memory`: a multiple of 8.
  CopyRing(std::shared_ptr<void> memory, std::int64_t bytes, std::vector<RankPiece> pieces);

  /// Begins anew with the first piece. Neither thread may be using the ring.
  void restart();
  /// Copies from the device what there is room for. \return true if all pieces are copied, or nobody takes them any
  /// more.
  bool fill(const ReadSlice& read);
  /// Waits for bytes. \return at most `most` of them, valid until the next call. \throws RuntimeError after
  /// stop_filling().
  [[nodiscard]] std::span<const std::byte> take(std::size_t most);
  /// Says that no thread will fill.
  void stop_filling();
  /// Says that no thread will take.
  void stop_taking();

  [[nodiscard]] const std::vector<RankPiece>& pieces() const { return pieces_; }

 private:
  [[nodiscard]] std::int64_t room();

  std::shared_ptr<void> memory_;
  std::int64_t bytes_;
  std::vector<RankPiece> pieces_;

  std::mutex mutex_;
  std::condition_variable changed_;
  /// Bytes filled and taken in total. A byte's position in the memory is its number modulo the memory's size.
  std::int64_t filled_ = 0;
  std::int64_t taken_ = 0;
  bool fills_ = true;
  bool takes_ = true;
  /// The next element to copy. Used by the filling thread.
  std::size_t piece_ = 0;
  std::int64_t element_ = 0;
  /// Bytes that the last take() returned. Used by the taking thread.
  std::int64_t lent_ = 0;
};

}  // namespace strata::host
