#include "matrix/summary.hpp"

#include <chrono>
#include <ctime>
#include <iomanip>

namespace strata::testing {

void Summary::add(const std::string& name, const std::string& toml, const Proof& proof) {
  ++tried_;
  switch (proof.verdict) {
    case Verdict::fails:
      ++failed_;
      return;
    case Verdict::refused:
      ++refused_;
      ++refused_by_reason_[proof.refusal->name];
      return;
    case Verdict::holds:
      break;
  }
  if (!accepted_.insert(toml).second) return;
  programs_.insert(proof.programs);
  amplified_ += proof.amplified.empty() ? 0 : 1;
  ++accepted_by_ranks_[proof.ranks];
  if (proof.worst_difference < worst_difference_) return;
  worst_difference_ = proof.worst_difference;
  worst_stack_ = name;
}

void Summary::print(std::ostream& out) const {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  out << std::put_time(&utc, "%F") << ": " << tried_ << " stacks; " << accepted_.size()
      << " distinct ones train as one rank does (" << programs_.size() << " different programs), " << refused_
      << " are refused, " << failed_ << (failed_ == 1 ? " fails\n" : " fail\n");
  out << "largest relative difference: " << std::scientific << std::setprecision(1) << worst_difference_
      << std::defaultfloat << (worst_stack_.empty() ? "" : " (" + worst_stack_ + ")") << '\n';
  if (amplified_ > 0)
    out << amplified_ << " hold with a larger difference, which one rank amplifies from rounding too\n";
  out << "by ranks:";
  for (const auto& [ranks, count] : accepted_by_ranks_) out << "  " << ranks << ": " << count;
  out << '\n';
  for (const auto& [reason, count] : refused_by_reason_) out << std::setw(7) << count << " refused: " << reason << '\n';
}

}  // namespace strata::testing
