#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives/card.hpp"
#include "collectives/device_stream.hpp"
#include "collectives/marked_rows.hpp"
#include "collectives/operation.hpp"
#include "collectives/transport.hpp"

namespace strata::communicators {

/// A peer has sent or received nothing until the deadline. Endpoint::perform() makes an error of it.
struct Late {
  int peer = 0;
};

/// The transport of one rank, with the errors that end its waits: time limits, failures of ranks and of collectives,
/// and ranks that have left.
class Endpoint {
 public:
  Endpoint(std::unique_ptr<Transport> transport, int rank, std::chrono::duration<double> timeout)
      : transport_(std::move(transport)), rank_(rank), timeout_(timeout) {}

  [[nodiscard]] Transport& transport() { return *transport_; }
  [[nodiscard]] Clock::time_point deadline() const;

  /// Runs `work` for an operation. \throws AbortedError if a rank has ended the run. \throws RuntimeError if the
  /// operation fails; the other members of a collective then fail too.
  void perform(const TransportOperation& operation, const std::function<void()>& work);
  /// Waits for the peer's end of a transfer. \throws Late after the deadline. \throws RuntimeError if the message
  /// cannot come any more.
  void await(const TransportOperation& operation, Transfer& transfer, int peer, Clock::time_point deadline);
  /// Why an operation has failed that waited in vain: "waited 300 s for rank 2, which did not take part".
  [[nodiscard]] std::string describe_missing(const std::vector<int>& peers, const std::string& fault);

  /// Ends the run on all ranks, because code outside of the communicator failed on this one.
  void abort(const std::string& reason) noexcept;
  /// Tells the others that this rank takes part in nothing any more. `is_unfinished`: true if communication of the rank
  /// has not ended, which then fails.
  void leave(bool is_unfinished) noexcept;
  /// True if a rank has ended the run.
  [[nodiscard]] bool has_ended();
  /// \throws what ended the run, if something has. `operation`: what it stops, or null.
  void check(const TransportOperation* operation = nullptr);

 private:
  /// Reads the notices of the others.
  void look();
  /// \throws why `operation` cannot end well, if that is known.
  void require_hope(const TransportOperation& operation);
  /// Returns when a failure of the run is known, or after some seconds without one.
  void wait_for_the_cause();
  /// As Transfer::await(). \throws RuntimeError for a lost connection.
  bool move(Transfer& transfer, int peer, Clock::time_point deadline);
  [[nodiscard]] bool has_left(int peer);

  std::unique_ptr<Transport> transport_;
  int rank_;
  std::chrono::duration<double> timeout_;
  std::mutex mutex_;
  /// The first failure of a rank.
  std::optional<Notice> failure_;
  /// The first error of this rank's own communication.
  std::optional<std::string> own_error_;
  /// By slot.
  std::map<Slot, Notice> faults_;
  /// Descriptions of operations, by the rank that waits in them.
  std::map<int, std::string> waiting_;
  std::set<int> left_;
};

/// One rank's part of a collective. Every rank adds in the order of the group, so results are the same on all ranks, in
/// every run and over every transport.
class Collective {
 public:
  Collective(Endpoint& endpoint, DeviceStream& stream, const TransportOperation& operation, Staging& staging);
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  /// Returns when the result is in memory and no rank reads this rank's input any more. After an error, transfers end
  /// with this object.
  void run();

 private:
  class PackedSends;

  /// Chunks of a piece that are on their way from one rank at a time, so that receiving overlaps with adding.
  static constexpr std::size_t kChunksInFlight = 3;
  /// Phases of a collective, whose messages must not be mixed up.
  static constexpr Slot kCards = 1;
  static constexpr Slot kScatter = 2;
  static constexpr Slot kGather = 3;

  /// Elements of the call's memory.
  struct Piece {
    std::int64_t begin = 0;
    std::int64_t elements = 0;
  };
  /// A posted transfer, and the position of its peer in the group.
  struct Posted {
    int peer = 0;
    /// Null if there is nothing to transfer.
    std::unique_ptr<Transfer> transfer;
  };

  /// Sends every member an envelope, and expects one of each.
  void exchange_cards();
  /// Waits for the envelopes of all members, once. \throws RuntimeError if they mean different things.
  void verify();

  void run_short();
  void all_reduce();
  /// For few elements: every rank sends everything to every other, and adds all of it.
  void all_reduce_at_once();
  void reduce_scatter();
  void all_gather();
  void all_to_all();
  /// Rows without marks stay (CollectiveCall::marks).
  void all_gather_marked();
  void reduce_scatter_marked();
  void broadcast();
  /// The root sends one piece to every rank, and the ranks exchange their pieces. So the root does not send everything
  /// to everyone.
  void broadcast_in_pieces();

  /// Sends every other rank its piece of the input, and reduces the own piece to `destination`, in chunks. Calls
  /// `reduced` for every chunk that is complete.
  void exchange_and_reduce(const std::vector<Piece>& pieces, std::byte* destination,
                           const std::function<void(Piece)>& reduced);
  void reduce(void* destination, const std::vector<const void*>& sources, std::int64_t elements);
  void copy(void* destination, const void* source, std::int64_t elements);

  /// The pieces of all ranks, in group order: equal ones, or ones that begin at cache lines.
  [[nodiscard]] std::vector<Piece> even_pieces() const;
  [[nodiscard]] std::vector<Piece> aligned_pieces() const;
  [[nodiscard]] std::int64_t chunk_elements() const;
  [[nodiscard]] std::vector<Piece> chunks(const Piece& piece) const;

  /// True if rows without marks may stay. Marks in the memory of a device cannot be read.
  [[nodiscard]] bool has_marks() const { return call_.marks && stream_.is_host_memory(); }
  [[nodiscard]] std::int64_t row_elements() const;
  [[nodiscard]] std::int64_t row_bytes() const { return row_elements() * width(); }
  /// A rank's rows in chunks, the same for all peers.
  [[nodiscard]] std::vector<RowRange> row_chunks() const;
  /// Bytes of the chunks in flight with all peers, and the place of one of them there.
  [[nodiscard]] std::int64_t bytes_in_flight() const;
  [[nodiscard]] std::byte* place(std::byte* memory, int peer, std::size_t chunk) const;
  /// The rows that travel to a peer or from it, by RowMarks::sent or received.
  [[nodiscard]] MarkedRows marked(const void* marks, int peer) const;

  /// True if every member needs another part of the input.
  [[nodiscard]] bool splits() const;
  [[nodiscard]] Envelope& sent_to(int index) { return sent_[splits() ? static_cast<std::size_t>(index) : 0]; }
  [[nodiscard]] std::int64_t width() const { return static_cast<std::int64_t>(size_of(call_.dtype)); }
  [[nodiscard]] const std::byte* input(std::int64_t element) const;
  [[nodiscard]] std::byte* output(std::int64_t element) const;
  [[nodiscard]] int rank_at(int index) const { return operation_.group->ranks[static_cast<std::size_t>(index)]; }
  [[nodiscard]] bool all_lend() const;
  [[nodiscard]] bool lends(int index) const { return endpoint_.transport().lends(rank_at(index)); }
  /// Calls `function` for the positions of the other ranks. Each rank begins with its successor, so that they do not
  /// all send to one rank at once.
  template <class Function>
  void for_each_peer(Function function) const {
    for (int step = 1; step < size_; ++step) function((index_ + step) % size_);
  }

  /// Posts transfers that finish() waits for.
  void send(int peer, Slot phase, const void* data, std::int64_t elements);
  void receive(int peer, Slot phase, void* data, std::int64_t elements);
  [[nodiscard]] Posted post_send(int peer, Slot phase, const void* data, std::int64_t elements);
  [[nodiscard]] Posted post_receive(int peer, Slot phase, void* data, std::int64_t elements);
  /// Waits for a transfer. Data arrives only from ranks that mean the same, so cards are read if it does not arrive
  /// soon.
  void await(const Posted& posted);
  /// Waits for all transfers, also those of the cards.
  void finish();

  Endpoint& endpoint_;
  DeviceStream& stream_;
  const TransportOperation& operation_;
  Staging& staging_;
  const CollectiveCall& call_;
  int index_;
  int size_;
  /// True if the data travels with the cards.
  bool is_short_;
  bool verified_ = false;
  /// The slot of all data. Ranks that mean different things compute different slots.
  Slot slot_ = 0;
  /// An envelope for every rank, or one for all of them.
  std::vector<Envelope> sent_;
  /// By position in the group.
  std::vector<Envelope> received_;
  std::vector<Posted> cards_;
  std::vector<Posted> received_cards_;
  std::vector<Posted> receives_;
  std::vector<Posted> sends_;
};

}  // namespace strata::communicators
