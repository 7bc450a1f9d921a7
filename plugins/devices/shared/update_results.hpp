#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "strata/kernel.hpp"

namespace strata::devices {

/// The order of an update's results: the values, a master copy if the values are shorter than `full`, the states.
/// Master copy and states have the type `full`.
class UpdateResults {
 public:
  UpdateResults(const OpInstance& op, DType full) : full_(full), has_master_(op.results[0].dtype != full) {}

  [[nodiscard]] bool has_master() const { return has_master_; }
  /// Index of the result in which the update computes: the master copy, or else the values.
  [[nodiscard]] std::size_t parameter() const { return has_master_ ? 1 : 0; }
  [[nodiscard]] std::size_t state(std::size_t index) const { return parameter() + 1 + index; }
  /// Why the results of `op` do not have this order for an update with `states` states. Empty if they do.
  [[nodiscard]] std::optional<std::string> mismatch(const OpInstance& op, std::size_t states) const;

 private:
  DType full_;
  bool has_master_;
};

/// Number of states of `sgd_update`: 1 with momentum, else 0.
std::size_t sgd_states(const OpInstance& op);

}  // namespace strata::devices
