#include "compiler/passes/passes.hpp"
#include "compiler/program/instructions.hpp"

namespace strata::host {
namespace {

/// Asks the device for a kernel. \return the bytes of its workspace.
std::int64_t offer(const OpInstance& instance, const Device& device, const PluginOrigin& origin) {
  if (const auto refusal = device.unsupported(instance)) {
    throw PluginError(origin, "unsupported", "",
                      "it cannot run op '" + instance.op + "' ('" + instance.name + "'): " + *refusal);
  }
  const std::int64_t bytes = device.workspace_bytes(instance);
  if (bytes < 0) {
    throw PluginError(origin, "workspace_bytes", "",
                      "it asks for " + std::to_string(bytes) + " bytes of scratch memory for op '" + instance.op +
                          "' ('" + instance.name + "')");
  }
  return bytes;
}

}  // namespace

void add_workspaces(ProgramBuilder& builder, const Device& device, const PluginOrigin& origin) {
  Program& program = builder.program();
  const Coordinates first = program.mesh.coordinates(0);
  for (Task& task : program.tasks) {
    for (Instruction& instruction : task.instructions) {
      auto* compute = instruction.as<Compute>();
      if (compute == nullptr) continue;
      compute->workspace_bytes = offer(describe_instruction(program, instruction, first, 0), device, origin);
      if (*compute->workspace_bytes == 0) continue;
      const std::int64_t elements = (*compute->workspace_bytes + 3) / 4;
      compute->workspace = builder.add_flat("scratch of " + compute->op + " " + instruction.name, BufferKind::workspace,
                                            DType::f32, elements);
    }
  }
}

}  // namespace strata::host
