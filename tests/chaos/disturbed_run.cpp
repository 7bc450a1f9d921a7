#include "chaos/disturbed_run.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "chaos/judgement.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing::chaos {
namespace {

namespace fs = std::filesystem;
using host::test::read_file;
using std::chrono::milliseconds;
using Words = std::vector<std::string>;

const Words kResume{"--resume", "auto"};
/// Space of a small disk: for some checkpoints with the spare bytes that a run wants beside them.
constexpr std::size_t kSmallDisk = 24U << 20U;

/// After this time without ranks mpirun is stuck.
constexpr std::chrono::seconds kLauncherWithoutRanks{30};

std::string last_lines(const std::string& text, int count) {
  std::size_t at = text.size();
  while (at > 0 && count-- >= 0) at = text.rfind('\n', at - 1) == std::string::npos ? 0 : text.rfind('\n', at - 1);
  return text.substr(at);
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += " '" + word + "'";
  return text;
}

}  // namespace

DisturbedRun::DisturbedRun(const Settings& settings, Plan plan, fs::path folder, References& references)
    : settings_(settings),
      plan_(std::move(plan)),
      folder_(std::move(folder)),
      references_(references),
      paths_{folder_ / "run.toml", folder_ / "output",
             plan_.log_in_output ? folder_ / "output/run.jsonl" : folder_ / "logs/run.jsonl"},
      files_(paths_.output, paths_.log),
      tree_(folder_.string()) {
  surroundings_.checkpoints = paths_.output / "checkpoints";
}

Outcome DisturbedRun::run() {
  const Clock::time_point begin = Clock::now();
  outcome_.faults = plan_.fault_count();
  try {
    run_to_its_end();
  } catch (const std::exception& error) {
    outcome_.failure = error.what();
  }
  outcome_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return outcome_;
}

void DisturbedRun::run_to_its_end() {
  const Trace& expected = references_.of(plan_);
  fs::create_directories(paths_.output);
  fs::create_directories(folder_ / "logs");
  write_configuration(folder_, plan_.stack);
  if (plan_.small_disk) surroundings_.disk = std::make_unique<SmallDisk>(paths_.output.string(), kSmallDisk);
  const bool is_cut = std::any_of(plan_.starts.begin(), plan_.starts.end(), [](const Start& start) {
    return std::any_of(start.faults.begin(), start.faults.end(),
                       [](const Fault& fault) { return fault.kind == FaultKind::cut; });
  });
  if (is_cut) surroundings_.network = std::make_unique<Network>();
  for (const Start& start : plan_.starts) disturb(start);
  disturb({});
  const std::string found = difference(read_trace(paths_.log, paths_.output), expected, scope_);
  if (!found.empty()) throw std::runtime_error(found);
  const std::string leftovers = files_.leftovers(plan_.keep);
  if (!leftovers.empty()) throw std::runtime_error("these files should not be there:\n" + leftovers);
}

void DisturbedRun::disturb(const Start& start) {
  const bool is_last = start.faults.empty() && start.slow_disk == 0 && start.stall == 0;
  if (is_last) wait_for_processes();
  const Words arguments = arguments_of_start();
  const bool may_refuse = files_.checkpoints() == RunFiles::Checkpoints::perhaps_none_whole;
  const Ended ended = execute(arguments, start);
  if (may_refuse && find_missing_refusal(ended.end, ended.messages).empty()) {
    ++outcome_.refusals;
    files_.give_up_checkpoints();
    return disturb(start);
  }
  outcome_.late += static_cast<int>(start.faults.size() - ended.injected.size());
  const std::string wrong = find_fault({plan_, start, ended.end, ended.messages, ended.injected, was_impatient_});
  if (!wrong.empty()) throw std::runtime_error("start " + std::to_string(outcome_.starts) + " " + wrong);
  note_progress(ended.messages);
  was_impatient_ = start.impatient;
  if (start.impatient) return;
  wait_for_processes();
  for (const Damage& damage : start.damages) {
    if (!files_.apply(damage)) ++outcome_.late;
  }
  log_is_damaged_ = files_.take_log_damage() || log_is_damaged_;
}

bool DisturbedRun::expects_refusal() const {
  const RunFiles::Checkpoints left = files_.checkpoints();
  if (left == RunFiles::Checkpoints::none) return false;
  return files_.has_wrong_identity() || left == RunFiles::Checkpoints::none_whole;
}

Words DisturbedRun::arguments_of_start() {
  if (!expects_refusal()) return kResume;
  wait_for_processes();
  // The ranks that were left may have written a checkpoint.
  if (!expects_refusal()) return kResume;
  const Ended refused = execute(kResume, {});
  ++outcome_.refusals;
  const std::string wrong = find_missing_refusal(refused.end, refused.messages);
  if (!wrong.empty()) throw std::runtime_error("start " + std::to_string(outcome_.starts) + " " + wrong);
  const auto whole = files_.newest_whole();
  if (files_.has_wrong_identity() && whole) {
    if (plan_.recovery == Recovery::restore) {
      files_.restore_identity();
      return kResume;
    }
    if (plan_.recovery == Recovery::name_checkpoint) return {"--resume", whole->string()};
  }
  return {"--overwrite"};
}

DisturbedRun::Ended DisturbedRun::execute(const Words& arguments, const Start& start) {
  ++outcome_.starts;
  CommandPlace place{environment_of(settings_, folder_), messages_of(outcome_.starts)};
  place.environment.push_back(tree_.mark());
  if (surroundings_.network) place.network = surroundings_.network->descriptor();
  if (start.slow_disk > 0 || start.stall > 0) {
    place.environment.push_back("LD_PRELOAD=" + settings_.slow_disk_library);
    place.environment.push_back("STRATA_CHAOS_DISK=" + paths_.output.string());
    place.environment.push_back("STRATA_CHAOS_SYNC_MS=" + std::to_string(start.slow_disk));
    place.environment.push_back("STRATA_CHAOS_STALL_MS=" + std::to_string(start.stall));
  }
  Plan plan = plan_;
  // A launcher starts again from the newest checkpoint only.
  if (arguments.front() == "--resume" && arguments.back() != "auto") plan.max_restarts = 0;
  const Words words = command_of(settings_, plan, paths_, arguments);
  history_.push_back(joined(words));
  Command command(words, place);
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(settings_.deadline);
  Ended ended;
  {
    Disturbance disturbance(tree_, command, surroundings_, place.output, deadline);
    disturbance.run(start.faults);
    await(command, disturbance, deadline);
    ended.injected = disturbance.injected();
  }
  ended.end = *command.poll();
  history_.back() += "\n    " + ended.end.text();
  ended.messages = read_file(place.output);
  return ended;
}

void DisturbedRun::await(Command& command, Disturbance& disturbance, Clock::time_point deadline) {
  Clock::time_point had_ranks = Clock::now();
  Clock::time_point next_look = had_ranks;
  while (!command.poll() && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
    disturbance.end_pauses_after_the_run();
    if (plan_.communicator != "mpi" || disturbance.injected().empty() || Clock::now() < next_look) continue;
    next_look = Clock::now() + std::chrono::seconds(1);
    if (tree_.has_ranks()) had_ranks = Clock::now();
    // Open MPI's mpirun can wait for itself if a rank dies while it starts the others.
    if (Clock::now() < had_ranks + kLauncherWithoutRanks) continue;
    ++outcome_.stuck_launchers;
    history_.back() += "\n    mpirun does not end, although its ranks have";
    ::kill(command.id(), SIGKILL);
    had_ranks = Clock::now();
  }
  for (const InjectedFault& each : disturbance.injected()) history_.back() += "\n    " + describe(each.fault);
  if (command.poll()) return;
  throw std::runtime_error("HANG: start " + std::to_string(outcome_.starts) + " did not end within " +
                           std::to_string(settings_.deadline) + " s. Its processes:\n" + tree_.list());
}

void DisturbedRun::note_progress(const std::string& messages) {
  const bool anew = messages.find("\nstep 1/") != std::string::npos;
  constexpr std::string_view kResuming = "resuming after step ";
  std::uint64_t first = anew ? 0 : UINT64_MAX;
  for (std::size_t at = 0; (at = messages.find(kResuming, at)) != std::string::npos;) {
    at += kResuming.size();
    first = std::min<std::uint64_t>(first, std::strtoull(messages.c_str() + at, nullptr, 10));
  }
  if (first == UINT64_MAX) return;
  files_.accept_identity();
  // Lines up to the step at which the run went on are those of the damaged log. A run that starts anew writes all.
  if (std::exchange(log_is_damaged_, false)) scope_.after = first;
  scope_.after = std::min(scope_.after, first);
  scope_.may_miss = scope_.may_miss || messages.find("lines of the log are lost") != std::string::npos;
}

void DisturbedRun::wait_for_processes() {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(settings_.deadline);
  while (!tree_.running().empty()) {
    if (Clock::now() > deadline) {
      throw std::runtime_error("HANG: processes are left of start " + std::to_string(outcome_.starts) + ":\n" +
                               tree_.list());
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  tree_.reap();
}

fs::path DisturbedRun::messages_of(int start) const { return folder_ / ("start-" + std::to_string(start) + ".txt"); }

std::string DisturbedRun::report() const {
  std::ostringstream text;
  text << describe(plan_) << "\n  " << outcome_.failure << "\nRepeat it with:\n  strata_chaos --seed " << settings_.seed
       << " --only " << plan_.number << "\nIts files are in " << folder_.string() << "\n";
  for (int start = 1; start <= outcome_.starts; ++start) {
    text << "--- start " << start << ": " << history_[static_cast<std::size_t>(start) - 1] << "\n"
         << last_lines(read_file(messages_of(start)), 25) << "\n";
  }
  text << "--- the log\n" << last_lines(read_file(paths_.log), 6) << "\n--- files\n" << files_.list();
  return text.str();
}

}  // namespace strata::testing::chaos
