#include "chaos/references.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "chaos/process_tree.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing::chaos {

References::References(const Settings& settings, std::filesystem::path folder)
    : settings_(settings), folder_(std::move(folder)) {}

const Trace& References::of(const Plan& plan) {
  const std::string name = plan.communicator + "-" + plan.stack.name + (plan.evaluates ? "-evaluated" : "");
  Reference* reference = nullptr;
  {
    const std::lock_guard lock(mutex_);
    reference = &references_[name];
  }
  std::call_once(reference->once, [&] { reference->trace = make(plan, name); });
  return reference->trace;
}

Trace References::make(Plan plan, const std::string& name) const {
  // Checkpoints and restarts change nothing.
  plan.checkpoint_every = 0;
  plan.max_restarts = 0;
  plan.timeout = settings_.deadline;
  const std::filesystem::path folder = folder_ / name;
  std::filesystem::create_directories(folder);
  const RunPaths paths{write_configuration(folder, plan.stack), folder / "output", folder / "run.jsonl"};
  ProcessTree tree(folder.string());
  CommandPlace place{environment_of(settings_, folder), folder / "messages.txt"};
  place.environment.push_back(tree.mark());
  Command command(command_of(settings_, plan, paths, {}), place);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(2 * settings_.deadline);
  while (!command.poll() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (!command.poll() || command.poll()->code != 0) {
    throw std::runtime_error("the undisturbed run " + name + " " +
                             (command.poll() ? "ended with " + command.poll()->text() : "did not end") + ":\n" +
                             host::test::read_file(place.output));
  }
  return read_trace(paths.log, paths.output);
}

}  // namespace strata::testing::chaos
