#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "work.hpp"

namespace strata::mpi {

/// all_reduce and reduce_scatter. Each member reduces one chunk of all inputs, in group order, and in all_reduce sends
/// the result to the others. So all ranks get the same bits in every run. Chunks travel in segments: while one is
/// reduced, others are on their way.
class Sums final : public Work {
 public:
  explicit Sums(WorkPlace place);

  void expect(int tag) override;
  [[nodiscard]] std::vector<std::byte> payload(int /*index*/) const override { return {}; }
  void run(std::vector<Control> arrivals) override;
  [[nodiscard]] bool is_complete() const override;

 private:
  struct Peer {
    int index = 0;
    int rank = 0;
    int tag = 0;
    std::int64_t segments = 0;  ///< of its chunk
    std::int64_t started = 0;   ///< segments of its chunk that this rank has begun to send
    std::int64_t sent = 0;
    std::vector<bool> has_left;  ///< by segment
    std::int64_t expected = 0;   ///< reduced segments that this rank has begun to receive
    std::int64_t received = 0;
  };

  /// First element of the chunk of the member at `index`.
  [[nodiscard]] std::int64_t chunk_begin(int index) const;
  [[nodiscard]] std::int64_t segments_of(int index) const;
  /// Elements of a segment.
  [[nodiscard]] std::int64_t segment_elements(int index, std::int64_t segment) const;
  /// Place of a segment in the whole input.
  [[nodiscard]] std::int64_t segment_begin(int index, std::int64_t segment) const;
  /// Memory for a peer's part of a segment of this rank's chunk.
  [[nodiscard]] std::byte* slot(std::int64_t segment, std::size_t peer) const;
  [[nodiscard]] bool gathers() const { return place_.call().kind == CollectiveKind::all_reduce; }

  void expect_parts(std::int64_t segment);
  void part_arrived(std::int64_t segment);
  /// Reduces a segment of which all parts have arrived.
  void finish(std::int64_t segment);
  void reduce(std::int64_t segment);
  void send_parts(Peer& peer);
  void expect_results(Peer& peer);

  WorkPlace place_;
  std::vector<Peer> peers_;
  std::int64_t segment_ = 0;
  std::int64_t own_segments_ = 0;
  std::int64_t reduced_ = 0;
  std::int64_t results_to_send_ = 0;
  /// Parts that have arrived, by slot.
  std::vector<int> parts_;
  /// Segments whose parts came before the last arrival, which says where the results go. Arrivals and data take
  /// different ways, so a peer's data may be seen first.
  std::vector<std::int64_t> early_;
  std::shared_ptr<void> scratch_;
  int tag_ = 0;
  bool runs_ = false;
};

}  // namespace strata::mpi
