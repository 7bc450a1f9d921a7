#include "flush_schedules.hpp"

#include <algorithm>

#include "work_order.hpp"

namespace pipeline {

using strata::ScheduledTask;

std::vector<ScheduledTask> naive_schedule(int stage, int micro_batches) {
  WorkOrder order;
  for (int i = 0; i < micro_batches; ++i) {
    order.forward(stage);
    order.backward(stage);
  }
  return order.tasks();
}

std::vector<ScheduledTask> gpipe_schedule(int stage, int micro_batches) {
  WorkOrder order;
  for (int i = 0; i < micro_batches; ++i) order.forward(stage);
  for (int i = 0; i < micro_batches; ++i) order.backward(stage);
  return order.tasks();
}

std::vector<ScheduledTask> one_forward_one_backward_schedule(int stage, int stages, int micro_batches) {
  const int warm_up = std::min(stages - 1 - stage, micro_batches);
  WorkOrder order;
  for (int i = 0; i < warm_up; ++i) order.forward(stage);
  for (int i = warm_up; i < micro_batches; ++i) {
    order.forward(stage);
    order.backward(stage);
  }
  for (int i = 0; i < warm_up; ++i) order.backward(stage);
  return order.tasks();
}

}  // namespace pipeline
