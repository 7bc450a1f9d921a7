#include <utility>

#include "compiler/program/program_builder.hpp"

namespace strata::host {
namespace {

/// Collects what a strategy puts in the place of a collective.
class Replacement final : public ConversionContext {
 public:
  Replacement(ProgramBuilder& builder, const Instruction& collective, const PlannedCollective& planned,
              std::vector<Instruction>& instructions)
      : builder_(builder), collective_(collective), planned_(planned), instructions_(instructions) {}

  [[nodiscard]] const Mesh& mesh() const override { return builder_.program().mesh; }
  [[nodiscard]] const PlannedCollective& planned() const override { return planned_; }
  [[nodiscard]] const std::string& label() const override { return collective_.name; }
  [[nodiscard]] BufferId input() const override { return collective_.inputs.front(); }
  [[nodiscard]] BufferId output() const override { return collective_.outputs.front(); }
  BufferId add_flat(const std::string& name, DType dtype, std::int64_t elements) override {
    return builder_.add_flat(name, BufferKind::communication, dtype, elements);
  }
  std::uint64_t communication_id(const std::string& label) override { return builder_.communication_id(label); }
  void emit(Instruction instruction) override { instructions_.push_back(std::move(instruction)); }

 private:
  ProgramBuilder& builder_;
  const Instruction& collective_;
  const PlannedCollective& planned_;
  std::vector<Instruction>& instructions_;
};

}  // namespace

void ProgramBuilder::emit_collective(Instruction collective, BufferKind value, std::vector<Instruction>& instructions) {
  const Buffer& input = buffer(collective.inputs.front());
  const PlannedCollective planned{collective.collective,
                                  value,
                                  collective.reduction,
                                  collective.axes,
                                  input.dtype,
                                  input.elements(),
                                  buffer(collective.outputs.front()).elements()};
  const NamedStrategy* claimant = find_claimant(strategies_, "the collective '" + collective.name + "'",
                                                [&](const Strategy& each) { return each.claims_collective(planned); });
  if (claimant == nullptr) {
    instructions.push_back(std::move(collective));
    return;
  }
  Replacement replacement(*this, collective, planned, instructions);
  claimant->strategy->convert(replacement);
}

}  // namespace strata::host
