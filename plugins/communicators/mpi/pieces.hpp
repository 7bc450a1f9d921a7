#pragma once

#include <vector>

#include "work.hpp"

namespace strata::mpi {

/// all_gather, all_to_all and broadcast: each member sends its pieces directly to those who need them.
class Pieces final : public Work {
 public:
  explicit Pieces(WorkPlace place) : place_(std::move(place)) {}

  void expect(int tag) override;
  [[nodiscard]] std::vector<std::byte> payload(int /*index*/) const override { return {}; }
  void run(std::vector<Control> arrivals) override;
  [[nodiscard]] bool is_complete() const override { return runs_ && awaited_ == 0; }

 private:
  /// True if the member at `from` has a piece for the one at `to`.
  [[nodiscard]] bool sends(int from, int to) const;
  [[nodiscard]] const std::byte* piece_for(int index) const;
  [[nodiscard]] std::byte* place_of(int index) const;

  WorkPlace place_;
  int awaited_ = 0;
  bool runs_ = false;
};

}  // namespace strata::mpi
