#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "cards.hpp"
#include "device_stream.hpp"
#include "operation.hpp"
#include "transfer.hpp"

namespace strata::gloo {

/// Host memory for the contributions of other ranks. It grows to the largest need and is reused.
class Staging {
 public:
  [[nodiscard]] std::byte* reserve(std::int64_t bytes);

 private:
  struct Release {
    void operator()(std::byte* memory) const;
  };

  std::unique_ptr<std::byte, Release> memory_;
  std::int64_t bytes_ = 0;
};

/// One rank's part of a collective. Every rank adds in the order of the group, so results are the same on all ranks and
/// in every run.
class Collective {
 public:
  Collective(Endpoint& endpoint, DeviceStream& stream, const Operation& operation, Staging& staging);

  /// Returns when the result is in memory and no rank reads this rank's input any more.
  void run();

 private:
  /// Elements of the call's memory.
  struct Piece {
    std::int64_t begin = 0;
    std::int64_t elements = 0;
  };
  /// The chunks of another rank's piece, which this rank sends.
  struct Outgoing {
    Transfer* transfer = nullptr;
    std::vector<Piece> chunks;
  };
  /// The pieces of all ranks, in group order.
  using Pieces = std::vector<Piece>;

  void all_reduce();
  /// For few elements: every rank sends everything to every other, and adds all of it.
  void all_reduce_at_once();
  void reduce_scatter();
  void all_gather();
  void all_to_all();
  void broadcast();
  void broadcast_in_pieces();

  /// Sends every other rank its piece of the input, and reduces the own piece to `destination`, in chunks. Calls
  /// `reduced` for every chunk that is complete.
  void exchange_and_reduce(const Pieces& pieces, std::byte* destination, const std::function<void(Piece)>& reduced);
  void reduce(void* destination, const std::vector<const void*>& sources, std::int64_t elements);
  void copy(void* destination, const void* source, std::int64_t elements);

  [[nodiscard]] Pieces even_pieces() const;
  [[nodiscard]] Pieces aligned_pieces() const;
  [[nodiscard]] std::int64_t chunk_elements() const;
  [[nodiscard]] std::vector<Piece> chunks(const Piece& piece) const;

  [[nodiscard]] std::int64_t width() const { return static_cast<std::int64_t>(size_of(call_.dtype)); }
  [[nodiscard]] const std::byte* input(std::int64_t element) const;
  [[nodiscard]] std::byte* output(std::int64_t element) const;
  [[nodiscard]] int rank_at(int index) const { return operation_.group->ranks[static_cast<std::size_t>(index)]; }
  /// Calls `function` for the positions of the other ranks. Each rank begins with its successor, so that they do not
  /// all send to one rank at once.
  template <class Function>
  void for_each_peer(Function function) const {
    for (int step = 1; step < size_; ++step) function((index_ + step) % size_);
  }
  /// A transfer between `elements` elements at `data` and the rank at `index`, which lives until the end of the
  /// collective.
  Transfer& add(int index, const void* data, std::int64_t elements);
  void send(Transfer& transfer, std::uint64_t phase, const Piece& part);
  void receive(Transfer& transfer, std::uint64_t phase, const Piece& part);
  /// Waits for the oldest transfer that was received, or for all that were sent.
  void await_one_received(Transfer& transfer);
  void await_sent(Transfer& transfer);
  /// Waits by `wait(deadline)`. Data arrives only from ranks that mean the same, so their cards are read if it does not
  /// arrive soon.
  template <class Wait>
  void patiently(const Wait& wait);
  /// Waits for all transfers.
  void finish();

  Endpoint& endpoint_;
  DeviceStream& stream_;
  const Operation& operation_;
  Staging& staging_;
  const CollectiveCall& call_;
  int index_;
  int size_;
  Slot slot_;
  Cards cards_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
};

}  // namespace strata::gloo
