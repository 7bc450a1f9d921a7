#include "chaos/judgement.hpp"

#include <algorithm>
#include <sstream>

namespace strata::testing::chaos {
namespace {

constexpr int kFailed = 1;
constexpr int kRefused = 2;
constexpr int kStopped = 75;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Judgement {
 public:
  explicit Judgement(const EndedStart& ended) : ended_(ended) {}

  [[nodiscard]] std::string fault() const {
    const CommandEnd& end = ended_.end;
    if (end.code == 0) return "";
    if (end.code == kRefused) return "was refused: " + end.text();
    if (ended_.was_impatient && has(ended_.messages, "is in use by another run")) return "";
    if (kills_command() || (asks() && !is_launched())) return "";
    if (end.code == kStopped) return asks() ? "" : "ended with exit code 75, but nobody had asked";
    if (must_restart()) return "ended with " + end.text() + ", but the launcher had restarts left";
    if (!may_fail()) return "ended with " + end.text() + ", but no fault of it ends a run";
    if (end.code != kFailed && is_launched()) return "ended with " + end.text();
    return has(ended_.messages, "error:") || !is_launched() ? "" : "failed without an error: " + end.text();
  }

 private:
  [[nodiscard]] bool is_launched() const { return ended_.plan.communicator == "gloo"; }

  template <class Predicate>
  [[nodiscard]] bool any(Predicate&& predicate) const {
    return std::any_of(ended_.injected.begin(), ended_.injected.end(), predicate);
  }
  [[nodiscard]] bool asks() const {
    return any([](const InjectedFault& each) { return each.fault.kind == FaultKind::request; });
  }
  [[nodiscard]] bool kills_command() const {
    return any([](const InjectedFault& each) {
      return each.fault.kind == FaultKind::kill && each.fault.target != Target::rank;
    });
  }
  [[nodiscard]] bool may_fail() const {
    return any([](const InjectedFault& each) {
      const Fault& fault = each.fault;
      switch (fault.kind) {
        case FaultKind::kill:
        case FaultKind::full_disk:
        case FaultKind::file_limit:
          return true;
        case FaultKind::pause:
        case FaultKind::cut:
          return fault.lasts();
        // A rank that ends before it trains is missing for the others.
        case FaultKind::request:
          return !each.in_training;
      }
      return false;
    });
  }
  /// True if nothing but ranks died, and not too often.
  [[nodiscard]] bool must_restart() const {
    int killed = 0;
    for (const InjectedFault& each : ended_.injected) {
      const bool kills = each.fault.kind == FaultKind::kill;
      const bool passes = each.fault.kind == FaultKind::pause && !each.fault.lasts();
      if (!kills && !passes) return false;
      killed += kills ? 1 : 0;
    }
    return killed > 0 && killed <= ended_.plan.max_restarts;
  }

  const EndedStart& ended_;
};

}  // namespace

std::string find_fault(const EndedStart& ended) { return Judgement(ended).fault(); }

std::string find_missing_refusal(const CommandEnd& end, const std::string& messages) {
  if (end.code != kFailed && end.code != kRefused) return "should have been refused, but ended with " + end.text();
  std::istringstream lines(messages);
  for (std::string line; std::getline(lines, line);) {
    const bool names_files = has(line, "run.output") || has(line, "run-id") || has(line, "/checkpoints");
    if (has(line, "error:") && names_files) return "";
  }
  return "was refused without an error that names the files";
}

}  // namespace strata::testing::chaos
