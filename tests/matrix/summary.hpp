#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>

#include "matrix/proof.hpp"

namespace strata::testing {

/// Counts the results of many stacks.
class Summary {
 public:
  void add(const std::string& name, const std::string& toml, const Proof& proof);

  [[nodiscard]] bool has_failures() const { return failed_ > 0; }
  void print(std::ostream& out) const;

 private:
  int tried_ = 0;
  int failed_ = 0;
  int refused_ = 0;
  /// Of those that hold: some difference is amplified rounding.
  int amplified_ = 0;
  /// Configurations that hold.
  std::set<std::string> accepted_;
  std::set<std::size_t> programs_;
  std::map<int, int> accepted_by_ranks_;
  std::map<std::string, int> refused_by_reason_;
  double worst_difference_ = 0;
  std::string worst_stack_;
};

}  // namespace strata::testing
