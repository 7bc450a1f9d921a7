/// Proves generated stacks: each trains like one rank, or is refused for a known reason. \return the exit code.

#include <CLI/CLI.hpp>
#include <atomic>
#include <fstream>
#include <iostream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "build_paths.hpp"
#include "matrix/drawn_run.hpp"
#include "matrix/model_options.hpp"
#include "matrix/proof.hpp"
#include "matrix/random_stack.hpp"
#include "matrix/refusals.hpp"
#include "matrix/resumed_run.hpp"
#include "matrix/summary.hpp"

namespace {

using namespace strata::testing;

struct Arguments {
  std::uint64_t from = 0;
  std::uint64_t count = 1000;
  int jobs = 2;
  bool run = false;
  bool quiet = false;
  bool refusals = false;
  bool graphs = false;
  bool train = false;
  std::string model;
  std::string communicator = "local";
  std::vector<std::string> files;
  std::string plugins = strata::plugin_folder();
};

std::string name_of(const Arguments& arguments, std::uint64_t number) {
  return (arguments.graphs ? "graph-" : "stack-") + std::to_string(number) + ".toml";
}

std::string configuration_of(const Arguments& arguments, std::uint64_t number) {
  return arguments.graphs ? drawn_run(number) : to_toml(random_stack(number));
}

void print(std::ostream& out, const std::string& name, const std::string& toml, const Proof& proof, bool quiet) {
  switch (proof.verdict) {
    case Verdict::holds:
      if (!quiet) out << name << ": holds, " << proof.ranks << " ranks, " << proof.worst_difference << std::endl;
      for (const std::string& each : proof.amplified) out << name << ": " << each << std::endl;
      return;
    case Verdict::refused:
      if (!quiet) out << name << ": refused: " << proof.findings.front() << std::endl;
      return;
    case Verdict::fails:
      out << name << ": FAILS\n";
      for (const std::string& finding : proof.findings) out << "  " << finding << '\n';
      out << toml << std::endl;
  }
}

/// \return the exit code.
int prove(const Arguments& arguments) {
  Summary summary;
  std::mutex mutex;
  std::atomic<std::uint64_t> next = arguments.from;
  const auto work = [&] {
    Prover prover(drawn_plugin_folders(arguments.plugins));
    for (;;) {
      const std::uint64_t number = next++;
      if (number >= arguments.from + arguments.count) return;
      if (!arguments.model.empty() && !has_model(random_stack(number), arguments.model)) continue;
      const std::string name = name_of(arguments, number);
      const std::string toml = configuration_of(arguments, number);
      const Proof proof = prover.prove(toml, name);
      const std::lock_guard lock(mutex);
      print(std::cout, name, toml, proof, arguments.quiet);
      summary.add(name, toml, proof);
    }
  };
  std::vector<std::thread> threads;
  for (int job = 0; job < arguments.jobs; ++job) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  summary.print(std::cout);
  return summary.has_failures() ? 1 : 0;
}

/// Proves the configurations of files, such as smaller forms of a stack that failed. \return the exit code.
int prove_files(const Arguments& arguments) {
  Summary summary;
  Prover prover(drawn_plugin_folders(arguments.plugins));
  for (const std::string& file : arguments.files) {
    std::ifstream stream(file);
    const std::string toml(std::istreambuf_iterator<char>(stream), {});
    const Proof proof = prover.prove(toml, file);
    print(std::cout, file, toml, proof, arguments.quiet);
    summary.add(file, toml, proof);
  }
  summary.print(std::cout);
  return summary.has_failures() ? 1 : 0;
}

/// \return the exit code.
int train(const Arguments& arguments) {
  return run_resumptions(arguments.communicator, arguments.from, arguments.count, arguments.jobs, arguments.plugins,
                         std::cout) > 0
             ? 1
             : 0;
}

void list(const Arguments& arguments) {
  for (std::uint64_t number = arguments.from; number < arguments.from + arguments.count; ++number) {
    std::cout << "# " << name_of(arguments, number) << '\n' << configuration_of(arguments, number) << '\n';
  }
}

void print_refusals() {
  for (const Refusal& refusal : known_refusals()) std::cout << "- **" << refusal.name << ".** " << refusal.why << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Generated stacks of strategies: stack N is always the same");
  Arguments arguments;
  app.add_flag("--run", arguments.run, "Prove the stacks; without it they are printed as configurations");
  app.add_option("--from", arguments.from, "Number of the first stack")->capture_default_str();
  app.add_option("--count", arguments.count, "How many")->capture_default_str();
  app.add_option("--jobs", arguments.jobs, "Stacks at a time")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--plugins", arguments.plugins, "Folder of the plugins")->capture_default_str();
  app.add_option("--model", arguments.model, "Leave out the stacks of other models, by the name of the plugin")
      ->type_name("PLUGIN");
  app.add_flag("--graphs", arguments.graphs, "Draw the model's graph too, instead of taking one of the plugins'");
  app.add_flag("--train", arguments.train,
               "Train drawn models by `strata train`: each under one stack, and from its checkpoint under another");
  app.add_option("--communicator", arguments.communicator, "Joins the ranks of --train")
      ->check(CLI::IsMember({"local", "gloo", "mpi"}))
      ->capture_default_str();
  app.add_flag("--quiet", arguments.quiet, "Print failures and the summary only");
  app.add_flag("--refusals", arguments.refusals, "Print the reasons for which a stack may be refused");
  app.add_option("files", arguments.files, "Configurations to prove instead")->check(CLI::ExistingFile);
  CLI11_PARSE(app, argc, argv);
  if (arguments.refusals) {
    print_refusals();
    return 0;
  }
  if (!arguments.files.empty()) return prove_files(arguments);
  if (arguments.train) return train(arguments);
  if (arguments.run) return prove(arguments);
  list(arguments);
  return 0;
}
