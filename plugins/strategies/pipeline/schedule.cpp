#include "schedule.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "strata/error.hpp"

namespace pipeline {
namespace {

using namespace strata;

/// Builds the order of a stage's work. Each call appends the next micro-batch of a phase and chunk.
class WorkOrder {
 public:
  void forward(int chunk) { append(Phase::forward, chunk); }
  void backward(int chunk) { append(Phase::backward, chunk); }
  void weight(int chunk) { append(Phase::weight, chunk); }

  /// Number of micro-batches so far of a phase and chunk.
  [[nodiscard]] int count(Phase phase, int chunk) const {
    const auto found = counts_.find({phase, chunk});
    return found == counts_.end() ? 0 : found->second;
  }
  [[nodiscard]] std::vector<ScheduledTask> take() { return std::move(tasks_); }

 private:
  void append(Phase phase, int chunk) { tasks_.push_back({phase, counts_[{phase, chunk}]++, chunk}); }

  std::vector<ScheduledTask> tasks_;
  std::map<std::pair<Phase, int>, int> counts_;
};

// --- one chunk per stage, stage s has chunk s, and the pipeline is flushed at the end of every step

/// `warm_up` forward passes, then forward and backward passes in turn, then the remaining backward passes.
/// - naive, 0: each micro-batch goes forward and backward through all stages before the next one starts;
/// - GPipe, all micro-batches: all forward passes, then all backward passes (Huang et al., "GPipe: Efficient Training
///   of Giant Neural Networks using Pipeline Parallelism", NeurIPS 2019).
std::vector<ScheduledTask> flush_schedule(int warm_up, const StageWork& work) {
  WorkOrder order;
  for (int i = 0; i < warm_up; ++i) order.forward(work.stage);
  for (int i = warm_up; i < work.micro_batches; ++i) {
    order.forward(work.stage);
    order.backward(work.stage);
  }
  for (int i = 0; i < warm_up; ++i) order.backward(work.stage);
  return order.take();
}

std::vector<ScheduledTask> naive(const StageWork& work) { return flush_schedule(0, work); }
std::vector<ScheduledTask> gpipe(const StageWork& work) { return flush_schedule(work.micro_batches, work); }

/// 1F1B: one forward pass per later stage fills the pipeline (PipeDream-flush; Narayanan et al., "Efficient Large-Scale
/// Language Model Training on GPU Clusters Using Megatron-LM", SC 2021). It takes as long as GPipe. Stage s of n has at
/// most n - s micro-batches in flight.
std::vector<ScheduledTask> one_forward_one_backward(const StageWork& work) {
  return flush_schedule(std::min(work.stages - 1 - work.stage, work.micro_batches), work);
}

// --- several chunks per stage

void check_micro_batches(int stages, int micro_batches) {
  if (micro_batches % stages == 0) return;
  throw OptionError("schedule",
                    "\"interleaved\" found " + std::to_string(micro_batches) + " micro-batches on " +
                        std::to_string(stages) + " stages; accepted: a multiple of " + std::to_string(stages) +
                        " micro-batches, which are batch.global over batch.micro and the number of replicas");
}

/// Interleaved 1F1B: several chunks per stage, chunk c on stage c mod stages (Narayanan et al., SC 2021). The pipeline
/// fills and drains chunk by chunk instead of stage by stage, at the price of more messages and more micro-batches in
/// flight. With one chunk per stage it is 1F1B.
std::vector<ScheduledTask> interleaved(const StageWork& work) {
  const auto& [stage, stages, virtual_stages, micro_batches] = work;
  check_micro_batches(stages, micro_batches);
  if (virtual_stages == 1) return one_forward_one_backward(work);
  // Groups of as many micro-batches as stages go through one chunk, then through the next chunk, and so on.
  const auto chunk_index = [&work](int turn) { return turn / work.stages % work.virtual_stages; };
  const auto chunk = [&work](int index) { return index * work.stages + work.stage; };
  const int turns = micro_batches * virtual_stages;
  const int warm_up = std::min(2 * (stages - 1 - stage) + (virtual_stages - 1) * stages, turns);
  WorkOrder order;
  for (int turn = 0; turn < warm_up; ++turn) order.forward(chunk(chunk_index(turn)));
  for (int turn = warm_up; turn < turns + warm_up; ++turn) {
    if (turn < turns) order.forward(chunk(chunk_index(turn)));
    order.backward(chunk(virtual_stages - 1 - chunk_index(turn - warm_up)));
  }
  return order.take();
}

// --- gradients of activations first, because other stages wait for them, and gradients of weights when the stage would
// idle (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024)

/// Builds ZB-V for one stage, section by section. `down` is its chunk on the way down, `up` the one on the way up.
class ZbvOrder {
 public:
  ZbvOrder(int stage, int stages)
      : before_(stage), from_here_(stages - stage), down_(stage), up_(2 * stages - 1 - stage) {}

  std::vector<ScheduledTask> build(int micro_batches) {
    fill();
    steady(micro_batches);
    drain();
    return order_.take();
  }

 private:
  void backward_and_weight(int chunk) {
    order_.backward(chunk);
    order_.weight(chunk);
  }

  /// Forward passes until the first gradient arrives, then forward and backward passes in turn.
  void fill() {
    for (int i = 0; i < 2 * from_here_ - 1; ++i) order_.forward(down_);
    for (int i = 0; i < before_; ++i) {
      order_.forward(up_);
      order_.forward(down_);
    }
    for (int i = 0; i < from_here_; ++i) {
      order_.forward(up_);
      backward_and_weight(up_);
    }
  }

  void steady(int micro_batches) {
    while (order_.count(Phase::forward, up_) < micro_batches) {
      if (order_.count(Phase::forward, down_) < micro_batches) order_.forward(down_);
      backward_and_weight(down_);
      order_.forward(up_);
      backward_and_weight(up_);
    }
  }

  /// Activation gradients first, because other stages wait for them. Weight gradients fill the bubble.
  void drain() {
    for (int i = 0; i < before_; ++i) {
      order_.backward(down_);
      order_.backward(up_);
    }
    for (int i = 0; i < from_here_; ++i) backward_and_weight(down_);
    for (const int chunk : {up_, down_}) {
      while (order_.count(Phase::weight, chunk) < order_.count(Phase::backward, chunk)) order_.weight(chunk);
    }
  }

  int before_;
  int from_here_;
  int down_;
  int up_;
  WorkOrder order_;
};

/// ZB-H1: 1F1B in which stage s delays weight gradients by s micro-batches. Every stage then stashes operands of as
/// many micro-batches as the first stage of 1F1B. Stage s has chunk s.
std::vector<ScheduledTask> zb_h1(const StageWork& work) {
  const int stage = work.stage;
  std::vector<ScheduledTask> tasks;
  for (const ScheduledTask& task : one_forward_one_backward(work)) {
    tasks.push_back(task);
    if (task.phase != Phase::backward || task.micro_batch < stage) continue;
    tasks.push_back({Phase::weight, task.micro_batch - stage, stage});
  }
  for (int late = std::max(work.micro_batches - stage, 0); late < work.micro_batches; ++late) {
    tasks.push_back({Phase::weight, late, stage});
  }
  return tasks;
}

/// ZB-V: chunks go down the stages and up again, so the first stage also has the last chunk, and the loss's gradient is
/// available where the pipeline starts. A stage stashes the operands of two chunks for at most as many micro-batches as
/// there are stages.
std::vector<ScheduledTask> zbv(const StageWork& work) {
  // The construction assumes a pipeline that fills up, with at least 2·stages - 1 micro-batches. If there are fewer,
  // build the schedule for that many and drop the missing ones. The rest is valid, because micro-batches are
  // independent.
  const int filling = std::max(work.micro_batches, 2 * work.stages - 1);
  std::vector<ScheduledTask> tasks = ZbvOrder(work.stage, work.stages).build(filling);
  std::erase_if(tasks, [&](const ScheduledTask& task) { return task.micro_batch >= work.micro_batches; });
  return tasks;
}

}  // namespace

const std::vector<Schedule>& schedules() {
  static const std::vector<Schedule> all{
      {.name = "naive", .order = naive},
      {.name = "gpipe", .order = gpipe},
      {.name = "1f1b", .order = one_forward_one_backward},
      {.name = "interleaved", .virtual_stages = std::nullopt, .order = interleaved},
      {.name = "zb-h1", .splits_weight_gradients = true, .order = zb_h1},
      {.name = "zbv", .virtual_stages = 2, .turns_back = true, .splits_weight_gradients = true, .order = zbv}};
  return all;
}

std::vector<int> Schedule::stages_of_chunks(int stages, int chunks) const {
  std::vector<int> found;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    found.push_back(turns_back && chunk >= stages ? chunks - 1 - chunk : chunk % stages);
  }
  return found;
}

}  // namespace pipeline
