#pragma once

#include <string>
#include <vector>

#include "conformance/check.hpp"
#include "conformance/stack_proof.hpp"
#include "conformance/subject.hpp"

namespace strata::host {

/// Counts stacks that hold and stacks that are refused, and fails at the first that does neither.
class ProvedStacks {
 public:
  explicit ProvedStacks(const Subject& subject) : has_configuration_(subject.has_configuration()) {}
  /// `description`: the stack in messages, such as "outside of 'tensor'". \throws CheckFailed if the proof fails.
  void add(const std::string& description, const StackProof& proof);
  /// What was proved, such as "9 stacks hold, 2 are refused: 'zero' (…)". \throws CheckFailed if no stack holds,
  /// although some were proved. \throws CheckSkipped if there was none.
  [[nodiscard]] std::string summary() const;

 private:
  bool has_configuration_;
  int held_ = 0;
  std::vector<std::string> refused_;
  std::vector<std::string> amplified_;
};

/// The lines as one text. Long lists are cut.
[[nodiscard]] std::string joined_lines(const std::vector<std::string>& lines);

/// Most steps of a proof of several stacks. Work that is done less often is left out.
inline constexpr int kMostStepsOfMany = 8;

/// Proves the run of the subject with each installed strategy alone. `variants`: also with integers of small ranges,
/// such as the stages of `zero`. \return the summary.
[[nodiscard]] std::string prove_with_every_strategy(Subject& subject, bool variants);

}  // namespace strata::host
