#include <string>
#include <vector>

#include "checkpoint/checkpoint_store.hpp"
#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "files/exit_codes.hpp"
#include "files/text_format.hpp"
#include "huggingface/initial_values.hpp"
#include "train/replay.hpp"

namespace strata::host {
namespace {

struct ReplayArguments {
  std::string checkpoint;
  std::uint64_t steps = 1;
  int times = 2;
  std::string log;
  std::vector<std::string> overrides;
};

void print_steps(const Replay& replayed, std::ostream& out) {
  for (const StepRecord& step : replayed.steps) {
    out << "step " << step.step << "  loss " << exact_number(step.loss) << "  gradient norm "
        << exact_number(step.gradient_norm) << '\n';
  }
  if (replayed.error) out << "ended with: " << *replayed.error << '\n';
}

int replay_steps(const ReplayArguments& arguments, CommandContext& context) {
  const CheckpointReader checkpoint(find_checkpoint(arguments.checkpoint));
  std::vector<std::string> overrides = arguments.overrides;
  overrides.emplace_back("run.stop_at_step=0");
  const RunSetup setup = prepare_run(checkpoint.configuration(overrides), context.plugins());
  const DataSource source = setup.open_data();
  const std::filesystem::path folder = std::filesystem::path(setup.configuration.run.output) / "replay";
  const Replay replayed = replay(setup, source, checkpoint, {arguments.steps, arguments.times, folder});
  // One process of several reports.
  if (replayed.first_rank != 0) return 0;
  print_steps(replayed, context.out);
  context.out << arguments.times << " times " << arguments.steps << " step(s) after " << checkpoint.run().step << ": "
              << (replayed.difference ? "NOT equal: " + *replayed.difference : "equal, bit for bit") << '\n';
  if (replayed.difference) return kFailed;
  if (arguments.log.empty()) return 0;
  const auto difference = find_difference_from_log(replayed.steps, arguments.log);
  context.out << arguments.log << ": " << (difference ? "NOT equal: " + *difference : "equal, bit for bit") << '\n';
  return difference ? kFailed : 0;
}

}  // namespace

void add_replay_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<ReplayArguments>(
      app, context, "replay",
      "Run the steps after a checkpoint again and compare them bit for bit: tells faulty hardware "
      "from a training that diverges; exit code 0 if they are equal, 1 if not",
      replay_steps);
  add_checkpoint(*command, arguments->checkpoint);
  command->add_option("--steps", arguments->steps, "Number of steps after the checkpoint")
      ->check(number_from(1))
      ->capture_default_str();
  command->add_option("--times", arguments->times, "How many times to run them")
      ->check(number_between(2, 1000))
      ->capture_default_str();
  command
      ->add_option("--log", arguments->log,
                   "Compare with what the run recorded, too: the file of its --log-json. The run had the same plugins "
                   "and strategies, on hardware of the same kind")
      ->type_name("FILE");
  add_overrides(*command, arguments->overrides,
                "Overrides a key of the checkpoint's configuration, as in --set device.plugin=reference");
}

}  // namespace strata::host
