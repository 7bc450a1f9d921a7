#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// A communicator under test, and the devices that its ranks have.
struct CommunicatorBench {
  /// Makes a world of so many ranks. Null if this process takes no part in it.
  std::function<std::unique_ptr<World>(int ranks)> make_world;
  /// Makes the device of a rank, on the rank's thread.
  std::function<std::shared_ptr<Device>(int rank, const World& world)> make_device;
  /// If the ranks are processes, which all run the same cases: joins the ranks' errors of all processes. Each process
  /// gives the errors of its own ranks, and empty texts for the others. Empty function: this process has all ranks.
  std::function<std::vector<std::string>(const std::vector<std::string>& errors)> gather = {};
};

/// The work of one rank of a test.
using RankWork = std::function<void(Communicator& communicator, Device& device)>;

/// Runs `work` as every rank of a new world that this process has, each on its own thread. A rank that fails stops the
/// others with abort(). \return the message that each rank threw, empty if it threw nothing. Errors that only follow
/// from another rank's error begin with "aborted: ".
[[nodiscard]] std::vector<std::string> run_ranks(const CommunicatorBench& bench, int ranks, const RankWork& work);

/// \throws CheckFailed if a rank failed; the message is that of the first one that did not only follow another.
void require_no_error(const std::vector<std::string>& errors, const std::string& what);

[[nodiscard]] std::vector<int> all_ranks(int count);

/// Numbers in the memory of a rank's device.
class DeviceNumbers {
 public:
  DeviceNumbers(Device& device, DType dtype, std::int64_t elements);
  /// Waits for the compute stream, which may still copy.
  ~DeviceNumbers();
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  [[nodiscard]] std::byte* at(std::int64_t element) const {
    return data() + element * static_cast<std::int64_t>(size_of(dtype_));
  }
  [[nodiscard]] std::int64_t bytes() const { return elements_ * static_cast<std::int64_t>(size_of(dtype_)); }

  /// Enqueues the values on the compute stream.
  void set(const std::vector<double>& values);
  /// Waits for the compute stream.
  [[nodiscard]] std::vector<double> get() const;

 private:
  Device& device_;
  DType dtype_;
  std::int64_t elements_;
  std::shared_ptr<void> memory_;
  /// Host memory of the last values, which the device may read later.
  std::shared_ptr<void> staging_;
};

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

/// \file
/// The cases of the checks of communicators. Each throws CheckFailed that says which rank found what.

/// Every collective, type, reduction and size, also empty and odd ones and in place: each rank gets its part.
void try_collectives(const CommunicatorBench& bench, int ranks);
/// Rows, and elements of each, that a rank gives or gets.
struct MarkedRowsSize {
  std::int64_t rows = 1;
  std::int64_t elements = 1;
};
/// Collectives of which only marked rows matter (RowMarks).
void try_marked_rows(const CommunicatorBench& bench, int ranks, const std::vector<MarkedRowsSize>& sizes);
/// Groups of some ranks, in any order.
void try_groups(const CommunicatorBench& bench);
/// Messages: sends do not wait, order, empty ones, ones to the rank itself, and messages beside a collective.
void try_messages(const CommunicatorBench& bench);
/// Random programs of four ranks with several communications in flight.
void try_interleaving(const CommunicatorBench& bench, std::uint32_t seed);
/// Calls that do not mean the same on all ranks.
void try_mismatches(const CommunicatorBench& bench);
/// Groups that cannot exist.
void try_impossible_groups(const CommunicatorBench& bench);
/// An abort at any moment ends every rank, and carries the reason.
void try_abort(const CommunicatorBench& bench, int rounds);
/// A rank that never comes: the others give up and name it. The bench's worlds have a short timeout.
void try_timeout(const CommunicatorBench& bench);

}  // namespace strata::host
