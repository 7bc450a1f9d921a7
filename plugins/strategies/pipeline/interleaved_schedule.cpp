#include "interleaved_schedule.hpp"

#include <algorithm>
#include <string>

#include "flush_schedules.hpp"
#include "strata/error.hpp"
#include "work_order.hpp"

namespace pipeline {
namespace {

void check_micro_batches(int stages, int micro_batches) {
  if (micro_batches % stages == 0) return;
  throw strata::OptionError("schedule",
                            "\"interleaved\" found " + std::to_string(micro_batches) + " micro-batches on " +
                                std::to_string(stages) + " stages; accepted: a multiple of " + std::to_string(stages) +
                                " micro-batches, which are batch.global over batch.micro and the number of replicas");
}

}  // namespace

std::vector<strata::ScheduledTask> interleaved_schedule(int stage, int stages, int virtual_stages, int micro_batches) {
  check_micro_batches(stages, micro_batches);
  if (virtual_stages == 1) return one_forward_one_backward_schedule(stage, stages, micro_batches);
  // Groups of as many micro-batches as stages go through one chunk, then through the next chunk, and so on.
  const auto chunk_index = [&](int turn) { return turn / stages % virtual_stages; };
  const auto chunk = [&](int index) { return index * stages + stage; };
  const int turns = micro_batches * virtual_stages;
  const int warm_up = std::min(2 * (stages - 1 - stage) + (virtual_stages - 1) * stages, turns);
  WorkOrder order;
  for (int turn = 0; turn < warm_up; ++turn) order.forward(chunk(chunk_index(turn)));
  for (int turn = warm_up; turn < turns + warm_up; ++turn) {
    if (turn < turns) order.forward(chunk(chunk_index(turn)));
    order.backward(chunk(virtual_stages - 1 - chunk_index(turn - warm_up)));
  }
  return order.tasks();
}

}  // namespace pipeline
