#include "chaos/plan.hpp"

#include <csignal>
#include <cstring>

#include "random_choice.hpp"

namespace strata::testing::chaos {
namespace {

/// Stacks of two ranks come more often: those of four are slow on few cores.
std::vector<Stack> stacks_of(const std::string& communicator) {
  std::vector<Stack> stacks{{"ddp2", R"({plugin="ddp", size=2})", 2, 3, 40},
                            {"zero1x2", R"({plugin="zero", stage=1, size=2})", 2, 3, 40},
                            {"zero3x2", R"({plugin="zero", stage=3, size=2})", 2, 3, 30},
                            {"tensor2", R"({plugin="tensor", size=2})", 2, 6, 30},
                            {"pipeline2", R"({plugin="pipeline", size=2})", 2, 3, 40},
                            {"ddp3", R"({plugin="ddp", size=3})", 3, 2, 30}};
  if (communicator == "gloo") {
    stacks.push_back({"pipeline2-zero2", R"({plugin="pipeline", size=2}, {plugin="zero", size=2})", 4, 3, 16});
    return stacks;
  }
  stacks.push_back({"pipeline2-tensor2", R"({plugin="pipeline", size=2}, {plugin="tensor", size=2})", 4, 6, 30});
  stacks.push_back({"zero2x4", R"({plugin="zero", stage=2, size=4})", 4, 3, 30});
  return stacks;
}

class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t number, const Facilities& facilities)
      : random_(seed, "disturbed run " + std::to_string(number)), facilities_(facilities) {
    plan_.number = number;
  }

  Plan plan() {
    settings();
    const int starts = 1 + below(3);
    for (int i = 0; i < starts; ++i) plan_.starts.push_back(start());
    plan_.recovery = random_.of(std::vector{Recovery::restore, Recovery::name_checkpoint, Recovery::overwrite});
    return plan_;
  }

 private:
  [[nodiscard]] int below(int bound) { return random_.below(bound); }
  /// True `parts` times in a hundred.
  [[nodiscard]] bool percent(int parts) { return below(100) < parts; }
  [[nodiscard]] bool is_launched() const { return plan_.communicator == "gloo"; }
  [[nodiscard]] int rank() { return below(plan_.stack.ranks); }

  void settings() {
    plan_.communicator = random_.of(facilities_.communicators);
    plan_.stack = random_.of(stacks_of(plan_.communicator));
    plan_.checkpoint_every = random_.of(std::vector{1, 2, 3, 5, 8, 0});
    plan_.keep = random_.of(std::vector{0, 1, 2, 3});
    plan_.background = percent(70);
    plan_.evaluates = percent(50);
    plan_.log_in_output = percent(50);
    plan_.small_disk = facilities_.small_disks && percent(30);
    if (is_launched() && percent(50)) plan_.max_restarts = 2 + below(3);
  }

  Moment moment() {
    const int microseconds = below(20'000);
    const int kind = below(10);
    if (kind < 4) return {Moment::Kind::time, below(1500), microseconds};
    if (kind < 7 && plan_.checkpoint_every > 0) return {Moment::Kind::writing, 1 + below(3), microseconds / 4};
    return {Moment::Kind::step, 1 + below(plan_.stack.steps), microseconds};
  }

  /// A fault after which the run goes on by itself.
  Fault passing_fault() {
    Fault fault{.kind = FaultKind::pause, .moment = moment(), .rank = rank(), .duration = 50 + below(1500)};
    const int kind = below(4);
    if (kind == 1 && plan_.small_disk) {
      fault.kind = FaultKind::full_disk;
      fault.bytes = random_.below(std::uint64_t{400'000});
    } else if (kind == 2) {
      fault.kind = FaultKind::file_limit;
      fault.bytes = 100 + random_.below(std::uint64_t{60'000});
    } else if (kind == 3 && facilities_.networks && is_launched()) {
      fault.kind = FaultKind::cut;
      fault.duration = 100 + below(3000);
    } else if (is_launched() && percent(25)) {
      fault.target = Target::launcher;
    }
    return fault;
  }

  /// A fault after which the command ends, or starts the ranks again.
  Fault ending_fault() {
    Fault fault{.kind = FaultKind::kill, .moment = moment(), .rank = rank()};
    const int kind = below(100);
    if (kind < 45) {
      fault.target = random_.of(std::vector{Target::rank, Target::rank, Target::launcher, Target::tree});
    } else if (kind < 82) {
      fault.kind = FaultKind::request;
      fault.target = random_.of(std::vector{Target::rank, Target::launcher, Target::tree});
      // Other launchers give the other signals meanings of their own.
      const bool any = is_launched() || fault.target == Target::rank;
      fault.signal = any ? random_.of(std::vector{SIGTERM, SIGTERM, SIGINT, SIGUSR1, SIGHUP}) : SIGTERM;
      fault.times = 1 + below(2);
      fault.gap = percent(80) ? below(300) : 1000 + below(200);
    } else if (kind < 86) {
      fault.kind = FaultKind::pause;
      // MPI_Init waits without a limit.
      if (!is_launched()) fault.moment = {Moment::Kind::step, 1 + below(plan_.stack.steps / 2), below(20'000)};
      plan_.timeout = 8;
      plan_.grace = 6;
    } else if (kind < 90 && facilities_.networks && is_launched()) {
      fault.kind = FaultKind::cut;
      plan_.timeout = percent(70) ? 8 : 30;
      plan_.max_restarts = 0;
    } else if (kind < 95 && plan_.small_disk) {
      fault.kind = FaultKind::full_disk;
      fault.bytes = random_.below(std::uint64_t{400'000});
    } else {
      fault.kind = FaultKind::file_limit;
      fault.bytes = 100 + random_.below(std::uint64_t{60'000});
    }
    return fault;
  }

  Damage damage() {
    Damage damage;
    damage.file =
        random_.of(std::vector{DamagedFile::tensors, DamagedFile::tensors, DamagedFile::manifest, DamagedFile::folder,
                               DamagedFile::latest, DamagedFile::identity, DamagedFile::log});
    damage.change = damage.file == DamagedFile::folder
                        ? Change::removed
                        : random_.of(std::vector{Change::flip, Change::flip, Change::cut, Change::removed,
                                                 Change::emptied, Change::pipe});
    if (damage.file == DamagedFile::log && percent(50)) damage.change = Change::torn;
    if (damage.file == DamagedFile::log && damage.change == Change::pipe) damage.change = Change::cut;
    damage.checkpoints = percent(75) ? 1 : percent(50) ? 2 : 1000;
    damage.place = random_.below(std::uint64_t{1} << 60U);
    return damage;
  }

  Start start() {
    Start start;
    for (int i = percent(30) ? 1 + below(2) : 0; i > 0; --i) start.faults.push_back(passing_fault());
    if (percent(90) || start.faults.empty()) start.faults.push_back(ending_fault());
    if (facilities_.slow_disks && percent(10)) start.slow_disk = 5 + below(60);
    if (facilities_.slow_disks && percent(2)) {
      plan_.timeout = 8;
      start.stall = 10'000;
    }
    if (percent(30)) start.damages.push_back(damage());
    if (percent(5)) start.damages.push_back(damage());
    start.impatient = start.damages.empty() && percent(20);
    return start;
  }

  RandomChoice random_;
  const Facilities& facilities_;
  Plan plan_;
};

std::string text_of(const Moment& moment) {
  switch (moment.kind) {
    case Moment::Kind::time:
      return "after " + std::to_string(moment.value) + " ms";
    case Moment::Kind::step:
      return "at step " + std::to_string(moment.value);
    case Moment::Kind::writing:
      return "in checkpoint " + std::to_string(moment.value);
  }
  return "";
}

std::string text_of(const Damage& damage) {
  const std::vector<std::string> files{"tensors", "the manifest", "the folder", "latest", "run-id", "the log"};
  const std::vector<std::string> changes{
      "a bit flipped in", "a part cut from", "removed:", "emptied:", "a pipe in place of", "a torn line in"};
  std::string text =
      changes[static_cast<std::size_t>(damage.change)] + " " + files[static_cast<std::size_t>(damage.file)];
  if (damage.file > DamagedFile::folder) return text;
  return text + (damage.checkpoints == 1   ? " of the newest checkpoint"
                 : damage.checkpoints == 2 ? " of two checkpoints"
                                           : " of all checkpoints");
}

std::string text_of(const Start& start) {
  std::string text;
  const auto add = [&](const std::string& each) { text += (text.empty() ? "" : ", ") + each; };
  if (start.slow_disk > 0) add("a sync takes " + std::to_string(start.slow_disk) + " ms");
  if (start.stall > 0) add("one sync takes " + std::to_string(start.stall) + " ms");
  for (const Fault& fault : start.faults) add(describe(fault));
  for (const Damage& damage : start.damages) add("then " + text_of(damage));
  if (start.impatient) add("then the next start at once");
  return text;
}

}  // namespace

int Plan::fault_count() const {
  int count = 0;
  for (const Start& start : starts) {
    count += static_cast<int>(start.faults.size() + start.damages.size());
    count += (start.slow_disk > 0 ? 1 : 0) + (start.stall > 0 ? 1 : 0);
  }
  return count;
}

Plan random_plan(std::uint64_t seed, std::uint64_t number, const Facilities& facilities) {
  return Draw(seed, number, facilities).plan();
}

std::string describe(const Fault& fault) {
  const std::string target = fault.target == Target::rank       ? "rank " + std::to_string(fault.rank)
                             : fault.target == Target::launcher ? "the launcher"
                                                                : "all processes";
  std::string text;
  switch (fault.kind) {
    case FaultKind::kill:
      text = "SIGKILL to " + target;
      break;
    case FaultKind::pause:
      text = "SIGSTOP to " + target;
      break;
    case FaultKind::request:
      text = std::string("SIG") + ::sigabbrev_np(fault.signal) + " to " + target;
      if (fault.times > 1) text += " twice within " + std::to_string(fault.gap) + " ms";
      break;
    case FaultKind::full_disk:
      text = "a full disk";
      break;
    case FaultKind::file_limit:
      text = "files of at most " + std::to_string(fault.bytes) + " bytes";
      break;
    case FaultKind::cut:
      text = "the network down";
      break;
  }
  text += " " + text_of(fault.moment);
  return text + (fault.duration >= 0 ? " for " + std::to_string(fault.duration) + " ms" : "");
}

std::string describe(const Plan& plan) {
  std::string text = "run " + std::to_string(plan.number) + ": " + plan.communicator + " " + plan.stack.name +
                     ", checkpoints every " + std::to_string(plan.checkpoint_every) + " in the " +
                     (plan.background ? "background" : "foreground") + ", keep " + std::to_string(plan.keep);
  if (plan.max_restarts > 0) text += ", restarts " + std::to_string(plan.max_restarts);
  if (plan.small_disk) text += ", small disk";
  for (const Start& start : plan.starts) text += "; " + text_of(start);
  return text;
}

}  // namespace strata::testing::chaos
