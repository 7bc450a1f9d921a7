#pragma once

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "files/descriptor.hpp"

namespace strata::host {

/// A program to start: its command line with the program first, and additions to this process's environment.
struct ProgramRequest {
  std::vector<std::string> words;
  std::map<std::string, std::string> environment = {};
  /// True if the program's standard input is a pipe from this process, and not /dev/null.
  bool has_input = false;
  /// The signal that the program gets when this process dies, or 0.
  int signal_at_parents_death = 0;
};

/// A started program, and this process's ends of the pipes of its standard streams.
struct ChildProcess {
  pid_t id = -1;
  Descriptor input;
  Descriptor output;
  Descriptor errors;
};

/// Starts a program in a process group of its own, so that signals of the terminal reach this process only. `mask`: the
/// signals that the program blocks. A program that cannot be executed ends with exit code 127. \throws RuntimeError if
/// no process can be made.
[[nodiscard]] ChildProcess start_child(const ProgramRequest& request, const sigset_t& mask);

/// Forbids core dumps of this process and of those that it starts. A process that knows the secret of a run calls it: a
/// dump would hold the secret. Debuggers may still attach.
void forbid_core_dumps();

/// Reads lines from a pipe without waiting for them.
class LineReader {
 public:
  using Line = std::function<void(const std::string& text)>;

  LineReader(Descriptor pipe, Line line) : pipe_(std::move(pipe)), line_(std::move(line)) {}

  /// For poll(); -1 after the end.
  [[nodiscard]] int descriptor() const { return pipe_.number(); }
  /// Passes on the lines that have arrived. At the end of the pipe, text without a line break is a line as well.
  void read();

 private:
  Descriptor pipe_;
  Line line_;
  std::string open_line_;
};

/// Queues SIGCHLD and the signals of kStopSignals during its lifetime: they arrive at a descriptor, and interrupt
/// nothing. SIGPIPE and SIGXFSZ are ignored, so that a closed pipe or a full file is the error of one write.
class SignalQueue {
 public:
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  /// Readable when a signal has arrived.
  [[nodiscard]] int descriptor() const { return descriptor_.number(); }
  /// The signals to stop that have arrived.
  [[nodiscard]] std::vector<int> take() const;
  /// The blocked signals before the queue was made, for child processes.
  [[nodiscard]] const sigset_t& previous_mask() const { return previous_mask_; }

 private:
  sigset_t previous_mask_{};
  Descriptor descriptor_;
};

}  // namespace strata::host
