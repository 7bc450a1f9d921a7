#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/check/communication_under_way.hpp"
#include "compiler/check/program_check.hpp"
#include "stack_configuration.hpp"
#include "strata/error.hpp"
#include "train/run/run_setup.hpp"
#include "train/run/training_programs.hpp"

/// \file
/// Every communication of one rank of a compiled stack is changed in every way that the checks know: all must be
/// refused before a step starts. (tests/compiler changes programs made for the purpose, in many more ways.)

namespace strata::testing {
namespace {

struct MutantCase {
  const char* name;
  int global_batch;
  const char* strategies;
};

void PrintTo(const MutantCase& row, std::ostream* out) { *out << row.name; }

/// A place in a program: an instruction of a task.
struct Place {
  Task* task;
  std::size_t at;

  [[nodiscard]] Instruction& instruction() const { return task->instructions[at]; }
};

/// \return false where there is nothing to change.
using Change = std::function<bool(const Program&, const Place&)>;

bool drop(const Program& /*program*/, const Place& place) {
  place.task->instructions.erase(place.task->instructions.begin() + static_cast<std::ptrdiff_t>(place.at));
  return true;
}

bool repeat(const Program& /*program*/, const Place& place) {
  const Instruction again = place.instruction();
  place.task->instructions.insert(place.task->instructions.begin() + static_cast<std::ptrdiff_t>(place.at), again);
  return true;
}

bool other_id(const Program& /*program*/, const Place& place) {
  place.instruction().id += 1'000'000;
  return true;
}

bool other_kind(const Program& /*program*/, const Place& place) {
  Instruction& instruction = place.instruction();
  if (instruction.kind == InstructionKind::collective) {
    const bool reduces = instruction.collective == CollectiveKind::all_reduce;
    instruction.collective = reduces ? CollectiveKind::broadcast : CollectiveKind::all_reduce;
    return true;
  }
  std::swap(instruction.inputs, instruction.outputs);
  instruction.kind = instruction.kind == InstructionKind::send ? InstructionKind::receive : InstructionKind::send;
  return true;
}

bool other_peer(const Program& program, const Place& place) {
  Instruction& instruction = place.instruction();
  if (instruction.kind == InstructionKind::collective) return false;
  instruction.peer = (instruction.peer + 1) % program.mesh.size(instruction.axes.front());
  return true;
}

/// A distance where a coordinate was meant, or the reverse.
bool other_meaning_of_peer(const Program& /*program*/, const Place& place) {
  Instruction& instruction = place.instruction();
  if (instruction.kind == InstructionKind::collective) return false;
  instruction.relative_peer = !instruction.relative_peer;
  return true;
}

bool fewer_members(const Program& program, const Place& place) {
  Instruction& instruction = place.instruction();
  if (instruction.kind != InstructionKind::collective || instruction.axes.size() != 1) return false;
  std::vector<int>& members = instruction.members;
  if (members.empty()) {
    for (int i = 0; i < program.mesh.size(instruction.axes.front()); ++i) members.push_back(i);
  }
  members.pop_back();
  return true;
}

bool all_members(const Program& /*program*/, const Place& place) {
  if (place.instruction().members.empty()) return false;
  place.instruction().members.clear();
  return true;
}

bool other_reduction(const Program& /*program*/, const Place& place) {
  Instruction& instruction = place.instruction();
  const bool reduces =
      instruction.collective == CollectiveKind::all_reduce || instruction.collective == CollectiveKind::reduce_scatter;
  if (instruction.kind != InstructionKind::collective || !reduces) return false;
  instruction.reduction = instruction.reduction == Reduction::sum ? Reduction::max : Reduction::sum;
  return true;
}

/// Behind the next collective of the same group. (Messages find each other by their ids in any order.)
bool later(const Program& /*program*/, const Place& place) {
  std::vector<Instruction>& all = place.task->instructions;
  const Instruction& first = place.instruction();
  if (first.kind != InstructionKind::collective) return false;
  for (std::size_t next = place.at + 1; next < all.size(); ++next) {
    if (all[next].kind != InstructionKind::collective || all[next].axes != first.axes) continue;
    Instruction moved = std::move(all[place.at]);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(place.at));
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(next), std::move(moved));
    return true;
  }
  return false;
}

struct NamedChange {
  const char* name;
  Change apply;
};

const std::vector<NamedChange>& changes() {
  static const std::vector<NamedChange> kChanges = {{"drop", drop},
                                                    {"repeat", repeat},
                                                    {"other id", other_id},
                                                    {"other kind", other_kind},
                                                    {"other peer", other_peer},
                                                    {"other meaning of peer", other_meaning_of_peer},
                                                    {"fewer members", fewer_members},
                                                    {"all members", all_members},
                                                    {"other reduction", other_reduction},
                                                    {"later", later}};
  return kChanges;
}

/// A configuration's programs, and what the checks say when one rank runs another.
class CompiledStack {
 public:
  explicit CompiledStack(const MutantCase& row)
      : setup_(host::prepare(small_gpt2(row.strategies, row.global_batch, 1), plugins_)),
        compiled_(setup_.compile(setup_.request(GraphMode::training, setup_.model->vocab().value()))) {}

  [[nodiscard]] std::optional<std::string> fault() const {
    return host::find_communication_fault(host::rank_programs(compiled_), limits_);
  }

  /// The rank whose program is changed. The last one is inside of every mesh and at the end of every pipeline.
  [[nodiscard]] int rank() const { return compiled_.mesh.rank_count() - 1; }

  /// Whether a check refuses the stack in which that rank runs `mutant`.
  [[nodiscard]] bool refuses(const Program& mutant) const {
    try {
      host::verify(mutant, *setup_.ops, "mutation");
    } catch (const VerificationError&) {
      return true;
    }
    host::RankPrograms ranks = host::rank_programs(compiled_);
    ranks.programs[static_cast<std::size_t>(rank())] = &mutant;
    return host::find_communication_fault(ranks, limits_).has_value();
  }

  /// Calls `visit` with every change of every communication that the rank takes part in.
  void each_mutant(const std::function<void(const NamedChange&, const Instruction&, const Program&)>& visit) const {
    const Program& original = compiled_.program(rank());
    for (std::size_t task = 0; task < original.tasks.size(); ++task) {
      for (std::size_t at = 0; at < original.tasks[task].instructions.size(); ++at) {
        const Instruction& instruction = original.tasks[task].instructions[at];
        if (!host::is_communication(instruction)) continue;
        for (const NamedChange& change : changes()) {
          Program mutant = original;
          if (change.apply(mutant, {&mutant.tasks[task], at})) visit(change, instruction, mutant);
        }
      }
    }
  }

 private:
  BuiltPlugins plugins_;
  host::RunSetup setup_;
  host::Compiled compiled_;
  const CommunicatorLimits limits_{0, true};
};

const std::vector<MutantCase>& mutant_cases() {
  static const std::vector<MutantCase> kCases = {
      {"ddp", 2, "[[strategy]]\nplugin = \"ddp\"\nsize = 2\n"},
      {"ring", 2, "[[strategy]]\nplugin = \"context\"\nsize = 4\nattention = \"ring\"\n"},
      // The first and the last of three stages share the tied embedding's gradient: members of the axis are chosen.
      {"pipeline", 4, "[[strategy]]\nplugin = \"pipeline\"\nsize = 3\nschedule = \"1f1b\"\n"},
      {"hierarchical_zero", 4, "[[strategy]]\nplugin = \"zero\"\nsize = 4\nstage = 3\nhierarchical_partition = 2\n"},
      {"hybrid_zero_and_tensor", 4,
       "[[strategy]]\nplugin = \"zero\"\nsize = 2\nstage = 2\nreplicate = 2\n"
       "[[strategy]]\nplugin = \"tensor\"\nsize = 2\nsequence_parallel = true\n"}};
  return kCases;
}

class CompiledMutants : public ::testing::TestWithParam<MutantCase> {};

TEST_P(CompiledMutants, AreRefused) {
  const CompiledStack stack(GetParam());
  ASSERT_EQ(stack.fault(), std::nullopt);
  stack.each_mutant([&](const NamedChange& change, const Instruction& instruction, const Program& mutant) {
    EXPECT_TRUE(stack.refuses(mutant)) << change.name << " of '" << instruction.name << "'";
  });
}

INSTANTIATE_TEST_SUITE_P(Stacks, CompiledMutants, ::testing::ValuesIn(mutant_cases()),
                         [](const ::testing::TestParamInfo<MutantCase>& test) { return test.param.name; });

TEST(CompiledMutantsOfAllStacks, IncludeEveryChange) {
  std::map<std::string, int> applied;
  for (const MutantCase& row : mutant_cases()) {
    CompiledStack(row).each_mutant(
        [&](const NamedChange& change, const Instruction&, const Program&) { ++applied[change.name]; });
  }
  for (const NamedChange& change : changes()) EXPECT_GT(applied[change.name], 0) << change.name;
}

}  // namespace
}  // namespace strata::testing
