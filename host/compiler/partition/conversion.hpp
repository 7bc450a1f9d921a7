#pragma once

#include <string>
#include <vector>

#include "compiler/program/program_builder.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// A value on its way from one layout to another.
struct ConversionRequest {
  BufferId buffer = -1;
  Dims dims;
  Layout from;
  /// Axes over which the value is partial and that are to be resolved; others may stay partial by not being named.
  AxisSet partial;
  Reduction reduction = Reduction::sum;
  Layout to;
  /// For people: names buffers and communications.
  std::string label;
};

/// Emits to `instructions` what takes a value to another layout: first partial axes (reduce_scatter where the target is
/// sharded right there, else all_reduce), then axes that leave (all_to_all where another dim takes them, else
/// all_gather), last local slices. \return the buffer that holds the value in the new layout (the same one if nothing
/// had to be done).
BufferId emit_conversion(ProgramBuilder& builder, const LayoutRules& rules, const ConversionRequest& request,
                         std::vector<Instruction>& instructions);

}  // namespace strata::host
