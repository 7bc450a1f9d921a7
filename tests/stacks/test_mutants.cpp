#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program_check.hpp"
#include "stack_configuration.hpp"
#include "strata/error.hpp"
#include "train/run_setup.hpp"
#include "train/training_programs.hpp"

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

bool communicates(const Instruction& each) {
  return each.kind == InstructionKind::collective || each.kind == InstructionKind::send ||
         each.kind == InstructionKind::receive;
}

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
bool other_meaning_of_peer(const Program& program, const Place& place) {
  Instruction& instruction = place.instruction();
  // On the first rank of a ring both are the same.
  if (instruction.kind == InstructionKind::collective || program.mesh.size(instruction.axes.front()) == 1) return false;
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

class CompiledMutants : public ::testing::TestWithParam<MutantCase> {
 protected:
  void SetUp() override {
    setup_ = std::make_unique<host::RunSetup>(
        host::prepare(small_gpt2(GetParam().strategies, GetParam().global_batch, 1), plugins_));
    compiled_ = setup_->compile(setup_->request(GraphMode::training, setup_->model->vocab().value()));
  }

  /// Whether a check refuses the stack in which `rank` runs `mutant`.
  bool is_refused(const Program& mutant, int rank) {
    try {
      host::verify(mutant, *setup_->ops, "mutation");
    } catch (const VerificationError&) {
      return true;
    }
    host::RankPrograms ranks = host::rank_programs(compiled_);
    ranks.programs[static_cast<std::size_t>(rank)] = &mutant;
    return host::find_communication_fault(ranks, limits_).has_value();
  }

  BuiltPlugins plugins_;
  std::unique_ptr<host::RunSetup> setup_;
  host::Compiled compiled_;
  const CommunicatorLimits limits_{0, true};
};

TEST_P(CompiledMutants, AreRefused) {
  ASSERT_EQ(host::find_communication_fault(host::rank_programs(compiled_), limits_), std::nullopt);
  const int rank = compiled_.mesh.rank_count() - 1;
  const Program& original = compiled_.program(rank);
  std::map<std::string, int> applied;
  for (std::size_t task = 0; task < original.tasks.size(); ++task) {
    for (std::size_t at = 0; at < original.tasks[task].instructions.size(); ++at) {
      if (!communicates(original.tasks[task].instructions[at])) continue;
      for (const NamedChange& change : changes()) {
        Program mutant = original;
        if (!change.apply(mutant, {&mutant.tasks[task], at})) continue;
        ++applied[change.name];
        EXPECT_TRUE(is_refused(mutant, rank)) << change.name << " of '" << original.tasks[task].instructions[at].name
                                              << "' in task " << original.tasks[task].name;
      }
    }
  }
  EXPECT_GT(applied["drop"], 0);
}

INSTANTIATE_TEST_SUITE_P(
    Stacks, CompiledMutants,
    ::testing::Values(MutantCase{"ddp", 2, "[[strategy]]\nplugin = \"ddp\"\nsize = 2\n"},
                      MutantCase{"ring", 2, "[[strategy]]\nplugin = \"context\"\nsize = 4\nattention = \"ring\"\n"},
                      MutantCase{"pipeline", 4, "[[strategy]]\nplugin = \"pipeline\"\nsize = 2\nschedule = \"1f1b\"\n"},
                      MutantCase{"hierarchical_zero", 4,
                                 "[[strategy]]\nplugin = \"zero\"\nsize = 4\nstage = 3\nhierarchical_partition = 2\n"},
                      MutantCase{"hybrid_zero_and_tensor", 4,
                                 "[[strategy]]\nplugin = \"zero\"\nsize = 2\nstage = 2\nreplicate = 2\n"
                                 "[[strategy]]\nplugin = \"tensor\"\nsize = 2\nsequence_parallel = true\n"}),
    [](const ::testing::TestParamInfo<MutantCase>& test) { return test.param.name; });

}  // namespace
}  // namespace strata::testing
