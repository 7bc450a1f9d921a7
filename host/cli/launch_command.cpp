#include <fmt/format.h>

#include <string>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "huggingface/initial_values.hpp"
#include "launch/launch.hpp"
#include "strata/communicator.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

void add_hosts_options(CLI::App& command, LaunchArguments& arguments) {
  CLI::Option* hosts =
      command
          .add_option("--hosts", arguments.hosts,
                      "Machines of the ranks, which are filled in this order: node1:4,node2:4, or a file with one a "
                      "line (default: this machine)")
          ->type_name("HOST:SLOTS,...");
  command
      .add_option("--ssh", arguments.ssh,
                  "Command that gets a host and a command to run there, such as \"ssh -p 2222\" (default: ssh)")
      ->type_name("COMMAND")
      ->needs(hosts);
  command
      .add_option("--wait-for-hosts", arguments.wait_for_hosts,
                  "How long a start waits for hosts that cannot be reached, such as 10m for a reboot (default: 0s)")
      ->type_name("TIME")
      ->needs(hosts);
  command
      .add_flag(
          "--replan", arguments.replan,
          "If the hosts have more or fewer slots than the run has ranks, make a new plan for them, as strata plan "
          "does, and go on with it. The configuration needs [cluster]")
      ->needs(hosts);
  command
      .add_option("--master-address", arguments.master_address,
                  "Address of the first host for the others (default: its name in --hosts)")
      ->type_name("ADDRESS")
      ->needs(hosts);
}

void add_launch_options(CLI::App& command, LaunchArguments& arguments) {
  command.add_option("--ranks", arguments.ranks, "Number of ranks that the configuration must have")
      ->check(number_from(1));
  command
      .add_option("--ranks-per-process", arguments.ranks_per_process,
                  "Ranks that each process runs as threads, instead of communicator.ranks_per_process (default: 1)")
      ->check(number_from(1));
  command
      .add_option("--grace", arguments.grace,
                  "Time in seconds that ranks get to end before they are killed: after a signal (default: no limit), "
                  "after a rank failed (10) or ended (300)")
      ->check(number_from(0))
      ->type_name("SECONDS");
  command
      .add_option("--max-restarts", arguments.max_restarts,
                  "How often to start the run again from its last checkpoint when a rank fails or a host is lost; "
                  "counted anew after an hour of good running")
      ->check(number_from(0));
  command
      .add_option("--restart-delay", arguments.restart_delay,
                  "Time before the first restart. Each further one takes twice as long, up to a minute (default: 1s)")
      ->type_name("TIME");
  command
      .add_option("--log-dir", arguments.log_dir,
                  "Folder of the files rank-00000.log, ... with what each rank writes, over all starts of the run "
                  "(default: ranks in run.output)")
      ->type_name("DIR");
}

/// --ranks-per-process as an argument of --set: it is an option of the communicator.
std::string ranks_per_process_override(const LaunchArguments& arguments, PluginRegistry& plugins) {
  const std::string plugin = arguments.train.load().communicator.plugin;
  const OptionSchema& schema = plugins.load<CommunicatorFactory>(plugin).options();
  const OptionSpecification* option = schema.find(OptionRole::ranks_per_process, OptionType::integer);
  if (option == nullptr) {
    throw ConfigurationError("--ranks-per-process: the communicator '" + plugin +
                             "' runs one rank in each process; accepted: one with several, such as gloo");
  }
  return fmt::format("communicator.{}={}", option->name, *arguments.ranks_per_process);
}

int launch(const LaunchArguments& given, CommandContext& context) {
  LaunchArguments arguments = given;
  if (arguments.ranks_per_process) {
    arguments.train.configuration.overrides.push_back(ranks_per_process_override(arguments, context.plugins()));
  }
  // Check the configuration before any rank starts, so that mistakes are reported once.
  const RunSetup setup = prepare_run(arguments.train.load(), context.plugins());
  return Launch(arguments, setup, context.plugins(), context).run();
}

}  // namespace

void add_launch_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<LaunchArguments>(
      app, context, "launch",
      "Train with a process for each rank, or for several, on this machine or on several through ssh", launch);
  add_training(*command, arguments->train);
  add_launch_options(*command, *arguments);
  add_hosts_options(*command, *arguments);
}

}  // namespace strata::host
