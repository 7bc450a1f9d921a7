#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "conformance/communicator_bench.hpp"

namespace strata::host {

/// A folder through which the processes of one test exchange texts. It works without the communicator under test.
class Noticeboard {
 public:
  Noticeboard(std::filesystem::path folder, int process, int count);

  /// The texts of all processes, by process. All processes make the same calls. \throws RuntimeError if one does not
  /// come within a minute.
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& text);
  /// The text of process 0.
  [[nodiscard]] std::string from_first(const std::string& text) { return all_gather(text).front(); }

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int count() const { return count_; }

 private:
  [[nodiscard]] std::filesystem::path place(int call, int process) const;

  std::filesystem::path folder_;
  int process_;
  int count_;
  int calls_ = 0;
};

/// Sets the variables of a launcher for a new world of `ranks` ranks: this process is one of them. The processes agree
/// on a free port.
void become_rank(Noticeboard& board, int ranks);

/// Joins the errors of run_ranks(): for each rank the text of the process that had it.
[[nodiscard]] std::vector<std::string> gather_errors(Noticeboard& board, const std::vector<std::string>& errors);

}  // namespace strata::host
