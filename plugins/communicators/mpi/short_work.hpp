#pragma once

#include <vector>

#include "work.hpp"

namespace strata::mpi {

/// A collective whose data fits into the arrivals. Every member sees all inputs that it needs at once.
class ShortWork final : public Work {
 public:
  explicit ShortWork(WorkPlace place) : place_(std::move(place)) {}

  void expect(int /*tag*/) override {}
  [[nodiscard]] std::vector<std::byte> payload(int index) const override;
  void run(std::vector<Control> arrivals) override;
  [[nodiscard]] bool is_complete() const override { return complete_; }

 private:
  /// This rank's own part of what the member at `index` needs.
  [[nodiscard]] const std::byte* part_for(int index) const;

  WorkPlace place_;
  bool complete_ = false;
};

}  // namespace strata::mpi
