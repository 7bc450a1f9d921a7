#include "zero_bubble_schedules.hpp"

#include <algorithm>

#include "flush_schedules.hpp"
#include "work_order.hpp"

namespace pipeline {
namespace {

using namespace strata;

/// Builds ZB-V for one stage, section by section. `down` is its chunk on the way down, `up` the one on the way up.
class ZbvOrder {
 public:
  ZbvOrder(int stage, int stages)
      : before_(stage), from_here_(stages - stage), down_(stage), up_(2 * stages - 1 - stage) {}

  std::vector<ScheduledTask> build(int micro_batches) {
    fill();
    steady(micro_batches);
    drain();
    return order_.tasks();
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

}  // namespace

std::vector<ScheduledTask> zb_h1_schedule(int stage, int stages, int micro_batches) {
  std::vector<ScheduledTask> tasks;
  for (const ScheduledTask& task : one_forward_one_backward_schedule(stage, stages, micro_batches)) {
    tasks.push_back(task);
    if (task.phase != Phase::backward || task.micro_batch < stage) continue;
    tasks.push_back({Phase::weight, task.micro_batch - stage, stage});
  }
  for (int late = std::max(micro_batches - stage, 0); late < micro_batches; ++late) {
    tasks.push_back({Phase::weight, late, stage});
  }
  return tasks;
}

std::vector<ScheduledTask> zbv_schedule(int stage, int stages, int micro_batches) {
  // The construction assumes a pipeline that fills up, with at least 2·stages - 1 micro-batches. If there are fewer,
  // build the schedule for that many and drop the missing ones. The rest is valid, because micro-batches are
  // independent.
  const int filling = std::max(micro_batches, 2 * stages - 1);
  std::vector<ScheduledTask> tasks = ZbvOrder(stage, stages).build(filling);
  std::erase_if(tasks, [&](const ScheduledTask& task) { return task.micro_batch >= micro_batches; });
  return tasks;
}

}  // namespace pipeline
