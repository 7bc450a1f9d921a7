#include "compiler/passes/routed_rows.hpp"

namespace strata::host {

RoutedRowUses::RoutedRowUses(const Program& program, const Task& task, const OpRegistry& registry) : task_(task) {
  for (std::size_t at = 0; at < task.instructions.size(); ++at) {
    const Instruction& each = task.instructions[at];
    const auto* compute = each.as<Compute>();
    if (compute == nullptr || !registry.has(compute->op)) continue;
    const std::optional<RoutedRows> rows = registry.get(compute->op).routed_rows();
    if (rows) ops_[each.inputs.at(static_cast<std::size_t>(rows->marks))].push_back({at, *rows});
  }
  if (ops_.empty()) return;
  for (std::size_t at = 0; at < task.instructions.size(); ++at) {
    for (const BufferId input : task.instructions[at].inputs) readers_[input].push_back(at);
    for (const BufferId output : task.instructions[at].outputs) writers_[output].push_back(at);
  }
  for (const Task& other : program.tasks) {
    if (&other == &task) continue;
    for (const Instruction& each : other.instructions) {
      for (const auto* buffers : {&each.inputs, &each.outputs}) {
        used_elsewhere_.insert(buffers->begin(), buffers->end());
      }
    }
  }
  for (const auto& [name, buffer] : program.reports) used_elsewhere_.insert(buffer);
}

std::optional<std::vector<std::size_t>> RoutedRowUses::readers(BufferId buffer) const {
  if (used_elsewhere_.contains(buffer)) return std::nullopt;
  const auto found = readers_.find(buffer);
  return found == readers_.end() ? std::vector<std::size_t>{} : found->second;
}

std::optional<std::size_t> RoutedRowUses::writer(BufferId buffer) const {
  const auto found = writers_.find(buffer);
  if (found == writers_.end() || found->second.size() != 1) return std::nullopt;
  return found->second.front();
}

bool RoutedRowUses::is_written_before(BufferId buffer, std::size_t at) const {
  const auto found = writers_.find(buffer);
  return found == writers_.end() || found->second.back() < at;
}

std::optional<RowPath> RoutedRowUses::arriving(BufferId operand) const {
  RowPath path;
  std::optional<std::size_t> at = writer(operand);
  if (is_copy(at, Copy::Kind::unpack)) {
    path.unpack = at;
    at = writer(instruction(*at).inputs[0]);
  }
  if (!at || !instruction(*at).is<Collective>()) return std::nullopt;
  path.collective = *at;
  const std::optional<std::size_t> before = writer(instruction(*at).inputs[0]);
  if (is_copy(before, Copy::Kind::pack)) path.pack = before;
  return path;
}

std::optional<RowPath> RoutedRowUses::leaving(BufferId result) const {
  const auto sole_reader = [this](BufferId buffer) -> std::optional<std::size_t> {
    const auto found = readers(buffer);
    return found && found->size() == 1 ? std::optional(found->front()) : std::nullopt;
  };
  RowPath path;
  std::optional<std::size_t> at = sole_reader(result);
  if (is_copy(at, Copy::Kind::pack)) {
    path.pack = at;
    at = sole_reader(instruction(*at).outputs[0]);
  }
  if (!at || !instruction(*at).is<Collective>()) return std::nullopt;
  path.collective = *at;
  const std::optional<std::size_t> after = sole_reader(instruction(*at).outputs[0]);
  if (is_copy(after, Copy::Kind::unpack)) path.unpack = after;
  return path;
}

BufferId RoutedRowUses::first(const RowPath& path) const {
  return instruction(path.pack.value_or(path.collective)).inputs[0];
}

BufferId RoutedRowUses::last(const RowPath& path) const {
  return instruction(path.unpack.value_or(path.collective)).outputs[0];
}

bool RoutedRowUses::is_copy(std::optional<std::size_t> at, Copy::Kind kind) const {
  if (!at) return false;
  const auto* copy = instruction(*at).as<Copy>();
  return copy != nullptr && copy->kind == kind;
}

}  // namespace strata::host
