#include "compiler/program/folded_mesh.hpp"

#include <utility>

namespace strata::host {

std::vector<int> ranks_at(const Mesh& mesh, const Coordinates& some) {
  std::vector<int> ranks{0};
  for (const MeshAxis& axis : mesh.axes()) {
    const int stride = AxisCoordinate(mesh, axis.name).stride();
    const auto fixed = some.find(axis.name);
    std::vector<int> next;
    for (const int rank : ranks) {
      const int begin = fixed == some.end() ? 0 : fixed->second;
      const int end = fixed == some.end() ? axis.size : begin + 1;
      for (int coordinate = begin; coordinate < end; ++coordinate) next.push_back(rank + coordinate * stride);
    }
    ranks = std::move(next);
  }
  return ranks;
}

AxisSet addressed_axes(const Program& program) {
  AxisSet axes;
  for (const Task& task : program.tasks) {
    for (const Instruction& instruction : task.instructions) {
      const auto* collective = instruction.as<Collective>();
      if (collective != nullptr && collective->members.empty()) continue;
      for (const Axis& axis : communication_axes(instruction)) axes.insert(axis);
    }
  }
  return axes;
}

}  // namespace strata::host
