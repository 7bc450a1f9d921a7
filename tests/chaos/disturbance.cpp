#include "chaos/disturbance.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <thread>

#include "checkpoint/checkpoint_store.hpp"
#include "files/file_io.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing::chaos {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Time in which the process that a fault is to hit may appear.
constexpr std::chrono::seconds kAppearance{3};

}  // namespace

Disturbance::Disturbance(ProcessTree& tree, Command& command, const Surroundings& surroundings,
                         std::filesystem::path messages, Clock::time_point deadline)
    : tree_(tree), command_(command), surroundings_(surroundings), messages_(std::move(messages)), deadline_(deadline) {
  look_for_checkpoints();
  left_ = written_.size();
}

Disturbance::~Disturbance() {
  for (const InjectedFault& each : injected_) {
    if (each.fault.lasts()) end(each.fault);
  }
}

void Disturbance::run(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    if (!wait_for(fault.moment)) return;
    const bool in_training = progress().step > 0;
    if (!begin(fault)) return;
    injected_.push_back({fault, in_training});
    if (fault.lasts()) continue;
    const Clock::time_point until = Clock::now() + milliseconds(fault.duration);
    while (!is_over() && Clock::now() < until) std::this_thread::sleep_for(milliseconds(5));
    end(fault);
  }
}

void Disturbance::end_pauses_after_the_run() {
  for (const InjectedFault& each : injected_) {
    const bool lasts = each.fault.kind == FaultKind::pause && each.fault.lasts();
    if (lasts && progress().step >= progress().steps) end(each.fault);
  }
}

bool Disturbance::is_over() { return command_.poll().has_value() || Clock::now() > deadline_; }

bool Disturbance::wait_for(const Moment& moment) {
  while (!has_come(moment)) {
    if (is_over()) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  std::this_thread::sleep_for(microseconds(moment.microseconds));
  return !is_over();
}

bool Disturbance::has_come(const Moment& moment) {
  switch (moment.kind) {
    case Moment::Kind::time:
      return Clock::now() >= begin_ + milliseconds(moment.value);
    case Moment::Kind::step:
      return progress().step >= moment.value;
    case Moment::Kind::writing:
      break;
  }
  look_for_checkpoints();
  return static_cast<int>(written_.size() - left_) >= moment.value;
}

void Disturbance::look_for_checkpoints() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(surroundings_.checkpoints, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find(host::kTemporaryMark) != std::string::npos) written_.insert(name);
  }
}

void Disturbance::wait_until_caught(int signal) {
  const Clock::time_point limit = Clock::now() + kAppearance;
  while (!is_over() && Clock::now() < limit && !catches(command_.id(), signal)) {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

Disturbance::Progress Disturbance::progress() const {
  const std::string text = host::test::read_file(messages_);
  const std::size_t start = text.rfind("starting the run again");
  constexpr std::string_view kStep = "\nstep ";
  Progress last;
  for (std::size_t at = start == std::string::npos ? 0 : start; (at = text.find(kStep, at)) != std::string::npos;) {
    at += kStep.size();
    Progress found;
    const bool is_step = std::sscanf(text.c_str() + at, "%d/%d", &found.step, &found.steps) == 2;
    if (is_step && found.step > last.step) last = found;
  }
  return last;
}

bool Disturbance::begin(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kill:
      return send(fault, SIGKILL);
    case FaultKind::pause:
      return send(fault, SIGSTOP);
    case FaultKind::request:
      if (fault.target != Target::rank) wait_until_caught(fault.signal);
      if (!send(fault, fault.signal)) return false;
      for (int i = 1; i < fault.times; ++i) {
        std::this_thread::sleep_for(milliseconds(fault.gap));
        send(fault, fault.signal);
      }
      return true;
    case FaultKind::full_disk:
      surroundings_.disk->fill(fault.bytes);
      return true;
    case FaultKind::file_limit:
      limit_files(fault.bytes);
      return true;
    case FaultKind::cut:
      surroundings_.network->set_up(false);
      return true;
  }
  return false;
}

void Disturbance::end(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kill:
    case FaultKind::request:
      return;
    case FaultKind::pause:
      return tree_.send_all(SIGCONT);
    case FaultKind::full_disk:
      return surroundings_.disk->make_room();
    case FaultKind::file_limit:
      return limit_files(RLIM_INFINITY);
    case FaultKind::cut:
      return surroundings_.network->set_up(true);
  }
}

bool Disturbance::send(const Fault& fault, int signal) {
  if (fault.target == Target::launcher) return ::kill(command_.id(), signal) == 0;
  if (fault.target == Target::tree) {
    tree_.send_all(signal);
    // A launcher may start ranks while the others are killed.
    while (signal == SIGKILL && !tree_.running().empty() && Clock::now() < deadline_) tree_.send_all(signal);
    return true;
  }
  const Clock::time_point limit = Clock::now() + kAppearance;
  while (!is_over() && Clock::now() < limit) {
    for (const RunningProcess& process : tree_.running()) {
      if (process.rank == fault.rank) return ::kill(process.id, signal) == 0;
    }
    std::this_thread::sleep_for(milliseconds(2));
  }
  return false;
}

void Disturbance::limit_files(std::uint64_t bytes) {
  for (const RunningProcess& process : tree_.running()) {
    const rlimit limit{bytes, RLIM_INFINITY};
    if (process.rank >= 0) ::prlimit(process.id, RLIMIT_FSIZE, &limit, nullptr);
  }
}

}  // namespace strata::testing::chaos
