#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "conformance/check.hpp"
#include "conformance/communicator_bench.hpp"
#include "conformance/isolated_process.hpp"
#include "conformance/subject.hpp"
#include "loading/plugin_call.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {
namespace {

constexpr int kBenchRanks = 4;
/// Time for a case of processes, which is shorter than that of a whole check.
constexpr std::chrono::seconds kCaseLimit{100};

/// One case of the kit.
using BenchCase = std::function<void(const CommunicatorBench& bench)>;

/// The communicator under test with the run's device. The setup outlives the bench.
CommunicatorBench bench_of(Subject& subject, const std::shared_ptr<const RunSetup>& setup, const Options& options) {
  const PluginOrigin origin = subject.origin();
  const CommunicatorFactory& factory = subject.factory<CommunicatorFactory>();
  const auto make_world = [origin, &factory, options](int ranks) {
    return guarded_world(create_by_plugin(origin, "create", [&] { return factory.create(options, ranks); }), origin);
  };
  return {make_world,
          [setup](int rank, const World& world) -> std::shared_ptr<Device> { return setup->make_device(rank, world); }};
}

/// Called by all processes together. \throws CheckSkipped if a process is not the rank of its number.
void require_own_rank(const World* world, Noticeboard& board) {
  const bool is_own = world == nullptr || world->local_ranks() == std::vector<int>{board.process()};
  for (const std::string& text : board.all_gather(is_own ? "" : "not its own")) {
    if (!text.empty()) throw CheckSkipped("its processes need a launcher of their own, such as mpirun");
  }
}

/// The bench of one of several processes. Each is the rank of its number, if a world has so many.
CommunicatorBench of_processes(const CommunicatorBench& bench, Noticeboard& board) {
  CommunicatorBench joined = bench;
  joined.make_world = [&bench, &board](int ranks) -> std::unique_ptr<World> {
    become_rank(board, ranks);
    std::unique_ptr<World> world = board.process() < ranks ? bench.make_world(ranks) : nullptr;
    require_own_rank(world.get(), board);
    return world;
  };
  joined.gather = [&board](const std::vector<std::string>& errors) { return gather_errors(board, errors); };
  return joined;
}

/// Runs a case in as many processes as the largest world has ranks.
void run_in_processes(const CommunicatorBench& bench, const BenchCase& test) {
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<IsolatedProcess>> processes;
  for (int process = 0; process < kBenchRanks; ++process) {
    processes.push_back(std::make_unique<IsolatedProcess>([&, process] {
      Noticeboard board(folder.path(), process, kBenchRanks);
      test(of_processes(bench, board));
      return std::string();
    }));
  }
  const auto end = std::chrono::steady_clock::now() + kCaseLimit;
  for (const auto& process : processes) {
    const CheckVerdict verdict = process->wait(end, kCaseLimit);
    if (verdict.outcome == Outcome::failed) throw CheckFailed(verdict.message);
    if (verdict.outcome == Outcome::skipped) throw CheckSkipped(verdict.message);
  }
}

/// A communicator under test.
struct Tested {
  CommunicatorBench bench;
  /// True if each rank is a process.
  bool is_of_processes = false;
};

/// \throws CheckSkipped if this machine lacks what the communicator needs.
Tested find_bench(Subject& subject, const Options& options) {
  try {
    const auto setup = std::make_shared<const RunSetup>(prepare(subject.configuration(), subject.plugins()));
    Tested tested{bench_of(subject, setup, options)};
    const std::unique_ptr<World> world = tested.bench.make_world(kBenchRanks);
    tested.is_of_processes = static_cast<int>(world->local_ranks().size()) != world->rank_count();
    return tested;
  } catch (const ConfigurationError& error) {
    throw CheckSkipped(std::string("this machine lacks what it needs: ") + error.what());
  }
}

void run_on_bench(Subject& subject, const Options& options, const BenchCase& test) {
  const Tested tested = find_bench(subject, options);
  if (tested.is_of_processes) return run_in_processes(tested.bench, test);
  test(tested.bench);
}

void run_on_bench(Subject& subject, const BenchCase& test) { run_on_bench(subject, subject.options(), test); }

std::string check_collectives(Subject& subject) {
  run_on_bench(subject, [](const CommunicatorBench& bench) {
    // The largest world first: it shows whether the kit can start the communicator's processes.
    for (int ranks = kBenchRanks; ranks > 0; --ranks) {
      try_collectives(bench, ranks);
      try_marked_rows(bench, ranks, {{3, 5}, {40, 64}, {1, 3000}});
    }
  });
  return "1 to " + std::to_string(kBenchRanks) + " ranks";
}

std::string check_groups(Subject& subject) {
  run_on_bench(subject, try_groups);
  return "";
}

std::string check_messages(Subject& subject) {
  run_on_bench(subject, try_messages);
  return "";
}

std::string check_interleaving(Subject& subject) {
  constexpr std::uint32_t kPrograms = 4;
  const auto first = static_cast<std::uint32_t>(subject.seed());
  run_on_bench(subject, [first](const CommunicatorBench& bench) {
    for (std::uint32_t i = 0; i < kPrograms; ++i) try_interleaving(bench, first + i);
  });
  return std::to_string(kPrograms) + " programs";
}

std::string check_mismatches(Subject& subject) {
  run_on_bench(subject, [](const CommunicatorBench& bench) {
    try_mismatches(bench);
    try_impossible_groups(bench);
  });
  return "";
}

std::string check_abort(Subject& subject) {
  constexpr int kRounds = 10;
  run_on_bench(subject, [](const CommunicatorBench& bench) { try_abort(bench, kRounds); });
  return std::to_string(kRounds) + " moments";
}

std::string check_timeout(Subject& subject) {
  const OptionSchema schema = subject.factory().options();
  const OptionSpecification* timeout = schema.find(OptionRole::timeout, OptionType::number);
  if (timeout == nullptr) throw CheckSkipped("it has no option of the role 'timeout', a number of seconds");
  Options options = subject.options();
  options.set(timeout->name, std::max(0.5, timeout->minimum.value_or(0)));
  run_on_bench(subject, options, try_timeout);
  return "";
}

std::string check_communicator_stacks(Subject& subject) {
  if (find_bench(subject, subject.options()).is_of_processes) {
    throw CheckSkipped("its ranks are processes; strata verify --communicator, under a launcher, proves a stack");
  }
  return prove_with_every_strategy(subject, false);
}

}  // namespace

std::vector<Check> communicator_checks() {
  return {
      {"C01", "Every collective, type, reduction and size gives each rank its part.",
       "Ranks compute with wrong numbers.", check_collectives},
      {"C02", "Groups may have some of the ranks, in any order.", "Meshes of several axes mix up ranks.", check_groups},
      {"C03", "Messages arrive unchanged and in order, and sends do not wait for their receive.",
       "Pipelines deadlock or compute with wrong numbers.", check_messages},
      {"C04", "Several communications in flight, awaited in any order, give right values.",
       "Overlap gives wrong numbers now and then.", check_interleaving},
      {"C05", "Calls that do not mean the same on all ranks, and impossible groups, are errors.",
       "A defect becomes a wrong sum or a hang.", check_mismatches},
      {"C06", "An abort at any moment ends every rank with an AbortedError that carries the reason.",
       "One rank's failure hangs all others.", check_abort},
      {"C07", "A rank that waits in vain gives up, and names the rank and the communication.",
       "A lost rank hangs the run without a word.", check_timeout},
      {"C08", "Each installed strategy trains over it as one rank does, or is refused.",
       "Real runs fail although each collective works.", check_communicator_stacks},
  };
}

}  // namespace strata::host
