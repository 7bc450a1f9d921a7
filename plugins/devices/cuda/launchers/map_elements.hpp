#pragma once

#include "device/operands.hpp"
#include "kernels/map_elements.cuh"
#include "language/launch.hpp"

namespace strata::cuda {

/// y[i] = function(x0[i], x1[i], ...). The result may be one of the operands.
template <class Function, class Result, class... Operands>
void launch_map(Stream stream, std::int64_t size, const Function& function, Result* y, const Operands*... x) {
  const Geometry geometry{{blocks_for(size, kMapTile<Result, Operands...>)}, {kMapThreads}};
  launch(map_elements<Function, Result, Operands...>, geometry, stream, function, size, are_aligned(y, x...), y, x...);
}

/// y[i] += function(x0[i], x1[i], ...)
template <class Function, class Result, class... Operands>
void launch_map_onto(Stream stream, std::int64_t size, const Function& function, Result* y, const Operands*... x) {
  launch_map(stream, size, AddTo<Function>{function}, y, static_cast<const Result*>(y), x...);
}

/// y (+)= function(operands of the op). Operands lists the operands' types.
template <class Result, class... Operands, class Function>
LaunchFunction map_operands(const OpInstance& op, const Function& function) {
  return [function, size = elements(op.results[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
    const auto map = [&]<std::size_t... I>(std::index_sequence<I...> /*operands*/) {
      auto* y = out<Result>(arguments, 0);
      if (accumulate) return launch_map_onto(arguments.stream, size, function, y, in<Operands>(arguments, I)...);
      launch_map(arguments.stream, size, function, y, in<Operands>(arguments, I)...);
    };
    map(std::index_sequence_for<Operands...>{});
  };
}

}  // namespace strata::cuda
