#pragma once

#include <string>

#include "strata/op.hpp"
#include "strata/program.hpp"

/// \file
/// The parts of verify(Program), in the order in which they run; each may rely on what those before it have shown.

namespace strata::host {

/// What all parts need.
struct ProgramUnderCheck {
  const Program& program;
  const OpRegistry& registry;
  /// The phase that made the program, for messages.
  const std::string& after;

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail(const TaskInstance& at, std::size_t instruction, const std::string& what) const;
};

/// Buffers, views, tasks, schedule, stored parameters and reports exist and fit together.
void verify_structure(const ProgramUnderCheck& check);
/// Number, shapes and types of every instruction's operands; operands that may not share memory.
void verify_operands(const ProgramUnderCheck& check);
/// Walks the schedule: what is read was written and not overwritten, communication is waited for, ids are unique.
void verify_flow(const ProgramUnderCheck& check);

}  // namespace strata::host
