#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/check/program_check.hpp"
#include "sanitized.hpp"
#include "setup/run_setup.hpp"
#include "stack_configuration.hpp"
#include "strata/error.hpp"
#include "train/training_programs.hpp"

/// \file
/// Every instruction of one rank of a compiled stack is changed in every way that the checks know. All changes must be
/// refused before a step starts. (tests/compiler changes specially made programs in many more ways.)

namespace strata::testing {
namespace {

struct MutantCase {
  const char* name;
  int global_batch;
  const char* strategies;
};

void PrintTo(const MutantCase& row, std::ostream* out) { *out << row.name; }

/// A place in a program: the instruction of a task.
struct Place {
  Task* task;
  std::size_t at;

  [[nodiscard]] Instruction& instruction() const { return task->instructions[at]; }
};

/// \return false if there is nothing to change. The program is as it was then.
using Change = std::function<bool(Program&, const Place&)>;

// --- changes of a communication

bool drop(Program& /*program*/, const Place& place) {
  if (!is_communication(place.instruction())) return false;
  place.task->instructions.erase(place.task->instructions.begin() + static_cast<std::ptrdiff_t>(place.at));
  return true;
}

bool repeat(Program& /*program*/, const Place& place) {
  if (!is_communication(place.instruction())) return false;
  const Instruction again = place.instruction();
  place.task->instructions.insert(place.task->instructions.begin() + static_cast<std::ptrdiff_t>(place.at), again);
  return true;
}

bool other_id(Program& /*program*/, const Place& place) {
  constexpr std::uint64_t kAway = 1'000'000;
  Instruction& instruction = place.instruction();
  if (auto* collective = instruction.as<Collective>()) collective->id += kAway;
  if (auto* send = instruction.as<Send>()) send->id += kAway;
  if (auto* receive = instruction.as<Receive>()) receive->id += kAway;
  return is_communication(instruction);
}

bool other_kind(Program& /*program*/, const Place& place) {
  Instruction& instruction = place.instruction();
  if (auto* collective = instruction.as<Collective>()) {
    const bool reduces = collective->kind == CollectiveKind::all_reduce;
    collective->kind = reduces ? CollectiveKind::broadcast : CollectiveKind::all_reduce;
    return true;
  }
  if (!is_communication(instruction)) return false;
  std::swap(instruction.inputs, instruction.outputs);
  if (const auto* send = instruction.as<Send>()) {
    instruction.work = Receive{Peer(send->to), send->id};
  } else {
    const Receive receive = *instruction.as<Receive>();
    instruction.work = Send{receive.from, receive.id};
  }
  return true;
}

/// The peer of a message. Null for other instructions.
Peer* peer(Instruction& instruction) {
  if (auto* send = instruction.as<Send>()) return &send->to;
  auto* receive = instruction.as<Receive>();
  return receive == nullptr ? nullptr : &receive->from;
}

bool other_peer(Program& program, const Place& place) {
  Peer* changed = peer(place.instruction());
  if (changed == nullptr) return false;
  changed->coordinate = (changed->coordinate + 1) % program.mesh.size(changed->axis);
  return true;
}

/// Reads the peer's coordinate as a distance, or the reverse.
bool other_meaning_of_peer(Program& /*program*/, const Place& place) {
  Peer* changed = peer(place.instruction());
  if (changed == nullptr) return false;
  changed->is_relative = !changed->is_relative;
  return true;
}

bool fewer_members(Program& program, const Place& place) {
  auto* collective = place.instruction().as<Collective>();
  if (collective == nullptr || collective->axes.size() != 1) return false;
  std::vector<int>& members = collective->members;
  if (members.empty()) {
    for (int i = 0; i < program.mesh.size(collective->axes.front()); ++i) members.push_back(i);
  }
  members.pop_back();
  return true;
}

bool all_members(Program& /*program*/, const Place& place) {
  auto* collective = place.instruction().as<Collective>();
  if (collective == nullptr || collective->members.empty()) return false;
  collective->members.clear();
  return true;
}

bool other_reduction(Program& /*program*/, const Place& place) {
  auto* collective = place.instruction().as<Collective>();
  const bool reduces = collective != nullptr && (collective->kind == CollectiveKind::all_reduce ||
                                                 collective->kind == CollectiveKind::reduce_scatter);
  if (!reduces) return false;
  collective->reduction = collective->reduction == Reduction::sum ? Reduction::max : Reduction::sum;
  return true;
}

/// Moves a collective behind the next one of the same group. (Messages match by their ids in any order.)
bool later(Program& /*program*/, const Place& place) {
  std::vector<Instruction>& all = place.task->instructions;
  const auto* first = place.instruction().as<Collective>();
  if (first == nullptr) return false;
  for (std::size_t next = place.at + 1; next < all.size(); ++next) {
    const auto* other = all[next].as<Collective>();
    if (other == nullptr || other->axes != first->axes) continue;
    Instruction moved = std::move(all[place.at]);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(place.at));
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(next), std::move(moved));
    return true;
  }
  return false;
}

// --- changes of the runs in which an instruction is executed

/// The runs of the place's task.
std::vector<TaskInstance*> runs(Program& program, const Place& place) {
  std::vector<TaskInstance*> found;
  for (TaskInstance& at : program.schedule) {
    if (&program.tasks[static_cast<std::size_t>(at.task)] == place.task) found.push_back(&at);
  }
  return found;
}

bool is_in_last_run(const Place& place) { return place.instruction().occurrence == Occurrence::last; }

bool every_run(Program& program, const Place& place) {
  if (!is_communication(place.instruction()) || !is_in_last_run(place) || runs(program, place).size() < 2) return false;
  place.instruction().occurrence = Occurrence::always;
  return true;
}

bool last_run_only(Program& program, const Place& place) {
  if (!is_communication(place.instruction()) || is_in_last_run(place) || runs(program, place).size() < 2) return false;
  place.instruction().occurrence = Occurrence::last;
  return true;
}

bool unmarked_last_run(Program& program, const Place& place) {
  if (!is_in_last_run(place)) return false;
  runs(program, place).back()->is_last = false;
  return true;
}

bool two_last_runs(Program& program, const Place& place) {
  const std::vector<TaskInstance*> all = runs(program, place);
  if (!is_in_last_run(place) || all.size() < 2) return false;
  all.front()->is_last = true;
  return true;
}

// --- changes of the memory that a kernel needs

bool not_offered(Program& /*program*/, const Place& place) {
  auto* compute = place.instruction().as<Compute>();
  if (compute == nullptr) return false;
  compute->workspace_bytes.reset();
  return true;
}

bool small_workspace(Program& program, const Place& place) {
  auto* compute = place.instruction().as<Compute>();
  if (compute == nullptr || compute->workspace == -1) return false;
  Buffer& workspace = program.buffers[static_cast<std::size_t>(compute->workspace)];
  if (workspace.shape[0] < 2) return false;
  --workspace.shape[0];
  return true;
}

bool no_workspace(Program& /*program*/, const Place& place) {
  auto* compute = place.instruction().as<Compute>();
  if (compute == nullptr || compute->workspace == -1) return false;
  compute->workspace = -1;
  return true;
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
                                                    {"later", later},
                                                    {"every run", every_run},
                                                    {"last run only", last_run_only},
                                                    {"unmarked last run", unmarked_last_run},
                                                    {"two last runs", two_last_runs},
                                                    {"not offered to the device", not_offered},
                                                    {"small workspace", small_workspace},
                                                    {"no workspace", no_workspace}};
  return kChanges;
}

/// A configuration's programs, and the verdict of the checks if one rank runs a different program.
class CompiledStack {
 public:
  explicit CompiledStack(const MutantCase& row)
      : setup_(host::prepare(small_gpt2(row.strategies, row.global_batch, 1), plugins_)),
        device_(setup_.make_device(0, setup_.stack.mesh.rank_count())),
        compiled_(setup_.compile(request())) {}

  [[nodiscard]] std::optional<std::string> fault() const {
    return host::find_communication_fault(host::rank_programs(compiled_), limits_);
  }

  /// The rank whose program is changed. The last rank has neighbours on every axis and is at the end of every pipeline.
  [[nodiscard]] int rank() const { return compiled_.mesh.rank_count() - 1; }

  /// True if a check refuses the stack in which that rank runs `mutant`.
  [[nodiscard]] bool refuses(const Program& mutant) const {
    try {
      host::verify(mutant, *setup_.ops, "mutation", true);
    } catch (const VerificationError&) {
      return true;
    }
    host::RankPrograms ranks = host::rank_programs(compiled_);
    ranks.programs[static_cast<std::size_t>(rank())] = &mutant;
    return host::find_communication_fault(ranks, limits_).has_value();
  }

  /// Calls `visit` with every change of every instruction of the rank.
  void each_mutant(const std::function<void(const NamedChange&, const Instruction&, const Program&)>& visit) const {
    const Program& original = compiled_.program(rank());
    Program mutant = original;
    for (std::size_t task = 0; task < original.tasks.size(); ++task) {
      for (std::size_t at = 0; at < original.tasks[task].instructions.size(); ++at) {
        const Instruction& instruction = original.tasks[task].instructions[at];
        for (const NamedChange& change : changes()) {
          if (!change.apply(mutant, {&mutant.tasks[task], at})) continue;
          visit(change, instruction, mutant);
          mutant = original;
        }
      }
    }
  }

 private:
  [[nodiscard]] host::CompileRequest request() const {
    host::CompileRequest request = setup_.request(GraphMode::training, setup_.sizes_without_data());
    request.device = device_.get();
    return request;
  }

  BuiltPlugins plugins_;
  host::RunSetup setup_;
  std::unique_ptr<Device> device_;
  host::Compiled compiled_;
  const CommunicatorLimits limits_{0, true};
};

const std::vector<MutantCase>& mutant_cases() {
  static const std::vector<MutantCase> kCases = {
      {"ddp", 4, "[[strategy]]\nplugin = \"ddp\"\nsize = 2\n"},
      {"ring", 2, "[[strategy]]\nplugin = \"context\"\nsize = 4\nattention = \"ring\"\n"},
      // The first and the last of three stages share the gradient of the tied embedding, so its group is a subset of
      // the axis.
      {"pipeline", 4, "[[strategy]]\nplugin = \"pipeline\"\nsize = 3\nschedule = \"1f1b\"\n"},
      {"hierarchical_zero", 4, "[[strategy]]\nplugin = \"zero\"\nsize = 4\nstage = 3\nhierarchical_partition = 2\n"},
      {"hybrid_zero_and_tensor", 4,
       "[[strategy]]\nplugin = \"zero\"\nsize = 2\nstage = 2\nreplicate = 2\n"
       "[[strategy]]\nplugin = \"tensor\"\nsize = 2\nsequence_parallel = true\n"}};
  return kCases;
}

class CompiledMutants : public ::testing::TestWithParam<MutantCase> {};

TEST_P(CompiledMutants, AreRefused) {
  if (kSanitized) GTEST_SKIP() << "tests/compiler changes programs sanitized";
  const CompiledStack stack(GetParam());
  ASSERT_EQ(stack.fault(), std::nullopt);
  stack.each_mutant([&](const NamedChange& change, const Instruction& instruction, const Program& mutant) {
    EXPECT_TRUE(stack.refuses(mutant)) << change.name << " of '" << instruction.name << "'";
  });
}

INSTANTIATE_TEST_SUITE_P(Stacks, CompiledMutants, ::testing::ValuesIn(mutant_cases()),
                         [](const ::testing::TestParamInfo<MutantCase>& test) { return test.param.name; });

TEST(CompiledMutantsOfAllStacks, IncludeEveryChange) {
  if (kSanitized) GTEST_SKIP() << "counts what the tests above change";
  std::map<std::string, int> applied;
  for (const MutantCase& row : mutant_cases()) {
    CompiledStack(row).each_mutant(
        [&](const NamedChange& change, const Instruction&, const Program&) { ++applied[change.name]; });
  }
  for (const NamedChange& change : changes()) EXPECT_GT(applied[change.name], 0) << change.name;
}

}  // namespace
}  // namespace strata::testing
