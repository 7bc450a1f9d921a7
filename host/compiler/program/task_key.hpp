#pragma once

#include <compare>

#include "strata/program.hpp"

namespace strata::host {

/// Names a task template of a program.
struct TaskKey {
  Task::Kind kind = Task::Kind::forward;
  int chunk = 0;

  auto operator<=>(const TaskKey&) const = default;
};

}  // namespace strata::host
