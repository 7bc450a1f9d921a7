#pragma once

#include <csignal>
#include <cstdint>

namespace strata::host {

/// During its lifetime, SIGQUIT asks for the records of the run's ranks instead of ending the process. A process has at
/// most one at a time.
class RecordSignal {
 public:
  RecordSignal();
  ~RecordSignal();
  RecordSignal(const RecordSignal&) = delete;
  RecordSignal& operator=(const RecordSignal&) = delete;

  /// How often the process was asked so far.
  [[nodiscard]] static std::uint64_t count();

 private:
  struct sigaction previous_ {};
};

}  // namespace strata::host
