#include "compiler/parameters/step_guard.hpp"

#include <string>
#include <utility>

#include "compiler/placement/bucket_collectives.hpp"
#include "strata/bucket_work.hpp"
#include "strata/compiler_ops.hpp"

namespace strata::host {
namespace {

/// Emits one guard. It consists of ops that every device has. Two of their properties make it work: 0 · NaN is NaN, and
/// gradient_scale(x, count) gives √x / count, which is NaN if x is negative.
class Guard {
 public:
  Guard(ProgramBuilder& builder, std::vector<Instruction>& instructions)
      : builder_(builder), instructions_(instructions) {}

  void emit(StepGuard guard, BufferId scale) {
    const BufferId verdict = scalar("guard");
    builder_.buffer(verdict).persistent = true;
    const bool has_limits = guard == StepGuard::limits;
    const BufferId of_loss = has_limits ? root("room of the loss", room_of_loss()) : report("loss");
    const BufferId of_norm = has_limits ? root("room of the norm", room_of_norm()) : report("grad_norm");
    add(weighted_sum("guard", {{0, of_loss}, {0, of_norm}}, verdict));
    add(weighted_sum("guarded gradient scale", {{1, scale}, {0, verdict}}, scale));
    builder_.program().reports[kGuardVerdict] = verdict;
  }

 private:
  /// The largest accepted sum of losses minus the sum, which has `count` times the mean.
  BufferId room_of_loss() {
    const BufferId zero = scalar("no squares");
    add(flat_op(ops::kFillZero, "no squares", {}, {zero}));
    const BufferId share = scalar("share of a loss");
    add(flat_op(ops::kGradientScale, "share of a loss", {zero, report("count")}, {share, scalar("no norm")},
                {{"clip", 0.0}}));
    const BufferId largest = quotient_of_root("largest loss", limit(kSquaredLossLimit), share);
    return difference("room of the loss", largest, report("loss"));
  }

  BufferId room_of_norm() { return difference("room of the norm", limit(kNormLimit), report("grad_norm")); }

  BufferId root(const std::string& name, BufferId room) {
    return quotient_of_root("root of the " + name, room, report("count"));
  }

  /// √x / y
  BufferId quotient_of_root(const std::string& name, BufferId x, BufferId y) {
    const BufferId result = scalar(name);
    add(flat_op(ops::kGradientScale, name, {x, y}, {scalar(name + " without use"), result}, {{"clip", 0.0}}));
    return result;
  }

  BufferId difference(const std::string& name, BufferId x, BufferId y) {
    const BufferId result = scalar(name);
    add(weighted_sum(name, {{1, x}, {-1, y}}, result));
    return result;
  }

  /// A scalar that the host writes.
  BufferId limit(const char* name) {
    const BufferId buffer = scalar(name);
    builder_.buffer(buffer).persistent = true;
    builder_.program().reports[name] = buffer;
    return buffer;
  }

  [[nodiscard]] BufferId report(const char* name) const { return builder_.program().reports.at(name); }
  BufferId scalar(const std::string& name) {
    return builder_.add_buffer(name, BufferKind::activation, DType::f64, {}, {});
  }
  void add(Instruction instruction) { instructions_.push_back(std::move(instruction)); }

  ProgramBuilder& builder_;
  std::vector<Instruction>& instructions_;
};

}  // namespace

void emit_step_guard(ProgramBuilder& builder, StepGuard guard, BufferId scale, std::vector<Instruction>& instructions) {
  if (guard != StepGuard::none) Guard(builder, instructions).emit(guard, scale);
}

}  // namespace strata::host
