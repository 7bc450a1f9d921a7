#include <algorithm>
#include <memory>

#include "conformance/checks.hpp"
#include "conformance/communicator_bench.hpp"
#include "conformance/proved_stacks.hpp"
#include "train/run/run_setup.hpp"

namespace strata::host {
namespace {

constexpr int kBenchRanks = 4;

/// The communicator under test with the run's device. The setup outlives the bench.
CommunicatorBench bench_of(Subject& subject, std::shared_ptr<const RunSetup> setup, const Options& options) {
  const PluginOrigin origin = subject.origin();
  const CommunicatorFactory& factory = subject.factory<CommunicatorFactory>();
  const auto make_world = [origin, &factory, options](int ranks) {
    return create_by_plugin(origin, "create", [&] { return factory.create(options, ranks); });
  };
  return {make_world, [setup = std::move(setup)](int rank, const World& world) -> std::shared_ptr<Device> {
            return setup->make_device(rank, world);
          }};
}

/// \throws CheckSkipped if this machine lacks what the communicator needs.
CommunicatorBench bench_of(Subject& subject, const Options& options) {
  try {
    const auto setup = std::make_shared<const RunSetup>(prepare(subject.configuration(), subject.plugins()));
    CommunicatorBench bench = bench_of(subject, setup, options);
    const std::unique_ptr<World> world = bench.make_world(kBenchRanks);
    if (static_cast<int>(world->local_ranks().size()) != world->rank_count()) {
      throw CheckSkipped("it runs its ranks in several processes");
    }
    return bench;
  } catch (const ConfigurationError& error) {
    throw CheckSkipped(std::string("this machine lacks what it needs: ") + error.what());
  }
}

CommunicatorBench bench_of(Subject& subject) { return bench_of(subject, subject.options()); }

}  // namespace

std::string check_collectives(Subject& subject) {
  const CommunicatorBench bench = bench_of(subject);
  for (int ranks = 1; ranks <= kBenchRanks; ++ranks) try_collectives(bench, ranks);
  return "1 to " + std::to_string(kBenchRanks) + " ranks";
}

std::string check_groups(Subject& subject) {
  try_groups(bench_of(subject));
  return "";
}

std::string check_messages(Subject& subject) {
  try_messages(bench_of(subject));
  return "";
}

std::string check_interleaving(Subject& subject) {
  constexpr std::uint32_t kPrograms = 4;
  const CommunicatorBench bench = bench_of(subject);
  const auto first = static_cast<std::uint32_t>(subject.seed());
  for (std::uint32_t i = 0; i < kPrograms; ++i) try_interleaving(bench, first + i);
  return std::to_string(kPrograms) + " programs";
}

std::string check_mismatches(Subject& subject) {
  const CommunicatorBench bench = bench_of(subject);
  try_mismatches(bench);
  try_impossible_groups(bench);
  return "";
}

std::string check_abort(Subject& subject) {
  constexpr int kRounds = 10;
  try_abort(bench_of(subject), kRounds);
  return std::to_string(kRounds) + " moments";
}

std::string check_timeout(Subject& subject) {
  const OptionSchema schema = subject.factory().options();
  const OptionSpecification* timeout = schema.find("timeout");
  if (timeout == nullptr || timeout->type != OptionType::number) {
    throw CheckSkipped("it has no option 'timeout', a number of seconds");
  }
  Options options = subject.options();
  options.set("timeout", std::max(0.5, timeout->minimum.value_or(0)));
  try_timeout(bench_of(subject, options));
  return "";
}

std::string check_communicator_stacks(Subject& subject) {
  static_cast<void>(bench_of(subject));
  return prove_with_every_strategy(subject.configuration(), subject.plugins(), false);
}

}  // namespace strata::host
