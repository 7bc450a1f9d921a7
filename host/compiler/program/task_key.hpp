#pragma once

#include <compare>

#include "strata/program.hpp"

namespace strata::host {

/// Identifies a task of a program.
struct TaskKey {
  Task::Kind kind = Task::Kind::forward;
  int chunk = 0;

  auto operator<=>(const TaskKey&) const = default;
};

}  // namespace strata::host
