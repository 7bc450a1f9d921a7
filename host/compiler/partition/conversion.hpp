#pragma once

#include <string>
#include <vector>

#include "compiler/program/program_builder.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// The conversion of one value from one layout to another.
struct ConversionRequest {
  BufferId buffer = -1;
  Dims dims;
  Layout from;
  /// Axes over which the value is partial and which the conversion resolves. The value may stay partial over others.
  AxisSet partial;
  Reduction reduction = Reduction::sum;
  Layout to;
  /// Prefix for the names of buffers and communications.
  std::string label;
};

/// Emits the conversion to `instructions`, in this order:
/// 1. Partial axes: reduce_scatter if the target is sharded over the axis right there, else all_reduce.
/// 2. Axes that leave a dimension: all_to_all if another dimension takes the axis, else all_gather.
/// 3. Local slices for axes that are added.
/// \return the buffer in the new layout, which is the given buffer if no instruction is needed.
BufferId emit_conversion(ProgramBuilder& builder, const LayoutRules& rules, const ConversionRequest& request,
                         std::vector<Instruction>& instructions);

}  // namespace strata::host
