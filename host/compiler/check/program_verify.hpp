#pragma once

#include <string>

#include "strata/op.hpp"
#include "strata/program.hpp"

/// \file
/// The parts of verify(Program), in the order in which they run. Each part relies on what the earlier parts have
/// proved.

namespace strata::host {

/// The input of every part.
struct ProgramUnderCheck {
  const Program& program;
  const OpRegistry& registry;
  /// The phase that made the program, for error messages.
  const std::string& after;
  /// True if the device must have prepared every compute instruction.
  bool has_device = false;

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail(const TaskInstance& at, std::size_t instruction, const std::string& what) const;
};

/// Checks that buffers, views, tasks, schedule, stored parameters and reports exist and match each other.
void verify_structure(const ProgramUnderCheck& check);
/// Checks number, shapes and types of every instruction's operands, and that only permitted operands share memory.
void verify_operands(const ProgramUnderCheck& check);
/// Walks the schedule of every variant of the step (step_variants()) and checks that reads find what was written for
/// them, that communication is waited for, and that ids are unique.
void verify_flow(const ProgramUnderCheck& check);

}  // namespace strata::host
