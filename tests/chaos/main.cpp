/// Trains in processes that are killed, stopped, cut off and damaged at random moments. Each run must end with the bits
/// of a run that nothing disturbed. \return the exit code.

#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>

#include "build_paths.hpp"
#include "chaos/disturbed_run.hpp"
#include "train/temporary_folder.hpp"

namespace {

using namespace strata::testing::chaos;

/// The exit code that tells ctest that nothing was tested.
constexpr int kSkipped = 77;

struct Arguments {
  Settings settings;
  int faults = 40;
  std::optional<std::uint64_t> only;
  int jobs = 2;
  std::string communicator;
  bool lists = false;
};

/// The first runs that have that many faults in all, or the one that was asked for.
std::vector<Plan> plans_of(const Arguments& arguments, const Facilities& facilities) {
  const std::uint64_t seed = arguments.settings.seed;
  if (arguments.only) return {random_plan(seed, *arguments.only, facilities)};
  std::vector<Plan> plans;
  for (int faults = 0; faults < arguments.faults; faults += plans.back().fault_count()) {
    plans.push_back(random_plan(seed, plans.size(), facilities));
  }
  return plans;
}

/// What all runs have shown.
class Summary {
 public:
  void add(const Plan& plan, const Outcome& outcome, const std::string& report) {
    const std::lock_guard lock(mutex_);
    ++runs_;
    starts_ += outcome.starts;
    refusals_ += outcome.refusals;
    faults_ += outcome.faults;
    late_ += outcome.late;
    stuck_ += outcome.stuck_launchers;
    if (!outcome.failure.empty()) {
      failed_.push_back(plan.number);
      std::cout << "FAILED: " << report << std::endl;
      return;
    }
    std::cout << describe(plan) << ": held; " << outcome.starts << " starts, " << std::fixed << std::setprecision(1)
              << outcome.seconds << " s" << std::endl;
  }
  /// \return the exit code.
  int print() const {
    std::cout << runs_ << " runs with " << faults_ << " faults, of which " << late_ << " came after the end; "
              << starts_ << " starts, of which " << refusals_ << " had to be refused; " << runs_ - failed_.size()
              << " runs equal to the undisturbed one, " << failed_.size() << " failed";
    for (const std::uint64_t number : failed_) std::cout << " " << number;
    if (stuck_ > 0) std::cout << "; mpirun went on without ranks " << stuck_ << " times, and was killed";
    std::cout << std::endl;
    return failed_.empty() ? 0 : 1;
  }

 private:
  std::mutex mutex_;
  std::size_t runs_ = 0;
  int starts_ = 0;
  int refusals_ = 0;
  int faults_ = 0;
  int late_ = 0;
  int stuck_ = 0;
  std::vector<std::uint64_t> failed_;
};

/// \return the exit code.
int disturb(const Arguments& arguments, const std::vector<Plan>& plans) {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / "strata-chaos-XXXXXX").string();
  const fs::path folder = ::mkdtemp(name.data());
  References references(arguments.settings, folder / "undisturbed");
  Summary summary;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < plans.size(); i = next++) {
      const fs::path own = folder / ("run-" + std::to_string(plans[i].number));
      fs::create_directories(own);
      bool held = false;
      {
        DisturbedRun run(arguments.settings, plans[i], own, references);
        const Outcome outcome = run.run();
        held = outcome.failure.empty();
        summary.add(plans[i], outcome, held ? "" : run.report());
      }
      if (held && !arguments.settings.keeps) fs::remove_all(own);
    }
  };
  std::vector<std::thread> threads;
  for (int job = 0; job < arguments.jobs; ++job) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  const int code = summary.print();
  if (code == 0 && !arguments.settings.keeps) fs::remove_all(folder);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs that are disturbed at random moments: run N is always the same for a seed");
  Arguments arguments;
  Settings& settings = arguments.settings;
  settings.strata = strata::build_path("bin/strata");
  settings.plugins = strata::plugin_folder();
  settings.slow_disk_library = strata::build_path("tests/chaos/libstrata_slow_disk.so");
  app.add_option("--seed", settings.seed, "Decides all faults and moments")->capture_default_str();
  app.add_option("--faults", arguments.faults, "At least how many faults")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--only", arguments.only, "This run and no other");
  app.add_option("--jobs", arguments.jobs, "Runs at a time")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--communicator", arguments.communicator, "gloo or mpi; without it both")
      ->check(CLI::IsMember({"gloo", "mpi"}));
  app.add_option("--strata", settings.strata, "The program")->capture_default_str();
  app.add_option("--plugins", settings.plugins, "Folder of the plugins")->capture_default_str();
  app.add_option("--deadline", settings.deadline, "Seconds after which a command hangs")->capture_default_str();
  app.add_flag("--keep", settings.keeps, "Keep the files of runs that held");
  app.add_flag("--list", arguments.lists, "Print the runs");
  CLI11_PARSE(app, argc, argv);

  const Facilities facilities = find_facilities(settings.plugins, arguments.communicator, settings.slow_disk_library);
  for (const std::string& line : facilities.left_out) std::cout << line << std::endl;
  if (facilities.communicators.empty()) return kSkipped;
  const std::vector<Plan> plans = plans_of(arguments, facilities);
  if (arguments.lists) {
    for (const Plan& plan : plans) std::cout << describe(plan) << '\n';
    return 0;
  }
  // Ranks whose launcher was killed become children of this process.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return disturb(arguments, plans);
}
