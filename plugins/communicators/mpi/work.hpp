#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "control.hpp"
#include "fabric.hpp"
#include "operation.hpp"

namespace strata::mpi {

/// This rank's transfers of one collective.
class Work {
 public:
  virtual ~Work() = default;
  /// Prepares for the data of peers, which may come as soon as this rank's arrival is known to them.
  virtual void expect(int tag) = 0;
  /// Data that the arrival carries to the member at `index`.
  [[nodiscard]] virtual std::vector<std::byte> payload(int index) const = 0;
  /// All members have arrived with equal calls. `arrivals`: their messages, in group order.
  virtual void run(std::vector<Control> arrivals) = 0;
  /// True if the result is in memory and nothing is left to send.
  [[nodiscard]] virtual bool is_complete() const = 0;
};

/// What every kind of work knows of its collective.
struct WorkPlace {
  Fabric& fabric;
  const Operation& operation;
  TicketPointer ticket;

  [[nodiscard]] const CollectiveCall& call() const { return operation.call; }
  [[nodiscard]] int size() const { return operation.group->size(); }
  [[nodiscard]] int index() const { return operation.group->index_of(operation.rank); }
  [[nodiscard]] int rank_of(int index) const { return operation.group->ranks[static_cast<std::size_t>(index)]; }
  [[nodiscard]] std::int64_t width() const { return static_cast<std::int64_t>(size_of(operation.call.dtype)); }
  /// The position of a member `step` behind this one. Ranks start with different peers, so that not all send to one.
  [[nodiscard]] int neighbour(int step) const { return (index() + step) % size(); }
  /// Elements of the input that one member needs of another.
  [[nodiscard]] std::int64_t piece() const;
  [[nodiscard]] const std::byte* input(std::int64_t element) const;
  [[nodiscard]] std::byte* output(std::int64_t element) const;
};

/// The work of `operation`: short ones travel with the arrivals, sums and pieces in transfers of their own.
[[nodiscard]] std::unique_ptr<Work> make_work(WorkPlace place);

}  // namespace strata::mpi
