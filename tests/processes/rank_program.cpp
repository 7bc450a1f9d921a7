/// \file
/// One process of a test of a communicator: runs one case together with the other processes.
///
///     strata_rank_program PLUGIN CASE RANKS THREADS FOLDER [streams]
///
/// PLUGIN is a plugin's file, RANKS the number of ranks, of which each process runs THREADS, and FOLDER an empty folder
/// that the processes share. With "streams", the ranks have devices in host memory whose work is asynchronous. The
/// process finds its rank in a variable of its launcher.

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>

#include "communicator/stream_device.hpp"
#include "conformance/communicator_bench.hpp"
#include "loading/plugin_registry.hpp"
#include "processes/rank_cases.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

class HostStreamDevice final : public StreamDevice {
 public:
  [[nodiscard]] bool is_host_memory() const override { return true; }
};

int own_rank() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (const char* value = std::getenv(name)) return std::stoi(value);
  }
  throw RuntimeError("no launcher has said which rank this process is");
}

const RankCase& find_case(const std::string& name) {
  for (const RankCase& each : rank_cases()) {
    if (each.name == name) return each;
  }
  throw RuntimeError("there is no case '" + name + "'");
}

/// The bench of a process that takes part in worlds of all processes, and in no smaller ones.
host::CommunicatorBench bench_of(const CommunicatorFactory& factory, const Options& options, host::Noticeboard& board,
                                 int threads, bool streams) {
  host::CommunicatorBench bench;
  bench.make_world = [&factory, options, &board, threads](int ranks) -> std::unique_ptr<World> {
    if (ranks != board.count() * threads) return nullptr;
    host::become_rank(board, board.count());
    return factory.create(options, ranks);
  };
  bench.make_device = [streams](int, const World&) -> std::shared_ptr<Device> {
    if (streams) return std::make_shared<HostStreamDevice>();
    return std::make_shared<HostDevice>();
  };
  bench.gather = [&board](const std::vector<std::string>& errors) { return host::gather_errors(board, errors); };
  return bench;
}

void run(const std::vector<std::string>& arguments) {
  const RankCase& chosen = find_case(arguments.at(1));
  const int ranks = std::stoi(arguments.at(2));
  const int threads = std::stoi(arguments.at(3));
  const std::filesystem::path file = arguments.at(0);
  host::PluginRegistry plugins({file.parent_path()}, file);
  const auto& factory = plugins.load<CommunicatorFactory>(plugins.files().front().description->name);
  Options options(factory.options(), {});
  options.set("timeout", chosen.timeout);
  if (threads > 1) options.set("ranks_per_process", std::int64_t{threads});
  host::Noticeboard board(arguments.at(4), own_rank(), ranks / threads);
  chosen.run(bench_of(factory, options, board, threads, arguments.size() > 5), ranks);
}

}  // namespace
}  // namespace strata::testing

int main(int count, char** words) {
  try {
    strata::testing::run(std::vector<std::string>(words + 1, words + count));
    return 0;
  } catch (...) {
    std::cerr << strata::current_exception_text() << '\n';
    return 1;
  }
}
