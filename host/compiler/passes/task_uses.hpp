#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// Readers and writers of buffers, seen from one task. Uses in the task have a position; uses in other tasks do not.
class TaskUses {
 public:
  /// An instruction of any task.
  struct Place {
    std::size_t task = 0;
    std::size_t at = 0;
  };

  TaskUses(const Program& program, const Task& task);

  /// Positions in the task whose instructions write `buffer` itself, ascending.
  [[nodiscard]] const std::vector<std::size_t>& writers(BufferId buffer) const;
  /// True if an instruction of the task after `at` writes memory of `buffer`, directly or through a view.
  [[nodiscard]] bool is_written_after(BufferId buffer, std::size_t at) const;
  /// True if the instruction at `at` reads `buffer` once and no other instruction reads it.
  [[nodiscard]] bool is_read_only_at(BufferId buffer, std::size_t at) const;
  /// True if a Send of any task reads `buffer`.
  [[nodiscard]] bool is_sent(BufferId buffer) const { return sent_.contains(buffer); }
  /// True if `buffer` is read after `at`, in another task, or by the host.
  [[nodiscard]] bool is_read_after(BufferId buffer, std::size_t at) const;
  /// The last position before `at` that reads or writes `buffer`. The buffer must have a writer.
  [[nodiscard]] std::size_t last_use_before(BufferId buffer, std::size_t at) const;

  /// Records that the reads of `inputs` at `from` have moved to `to`.
  void move(const std::vector<BufferId>& inputs, std::size_t from, std::size_t to);
  void set_writer(BufferId buffer, std::size_t at);
  void add_writer(BufferId buffer, std::size_t at);
  /// Records that all reads of `from` now read `to`. \return the instructions that read it.
  std::vector<Place> rename(BufferId from, BufferId to);

 private:
  struct Use {
    /// -1: the host.
    int task = -1;
    std::size_t at = 0;
  };
  [[nodiscard]] bool is_in_this_task(const Use& use) const { return use.task == task_; }

  struct Write {
    std::size_t at = 0;
    BufferId buffer = -1;
  };

  const Program& program_;
  int task_;
  std::map<BufferId, std::vector<Use>> reads_;
  std::set<BufferId> sent_;
  std::map<BufferId, std::vector<std::size_t>> writers_;
  std::map<BufferId, std::vector<Write>> writes_of_root_;
};

}  // namespace strata::host
