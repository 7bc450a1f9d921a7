#include "schedule.hpp"

#include "flush_schedules.hpp"
#include "interleaved_schedule.hpp"
#include "strata/error.hpp"
#include "zero_bubble_schedules.hpp"

namespace pipeline {

using namespace strata;

std::vector<int> stages_of_chunks(const Settings& settings) {
  std::vector<int> stages;
  for (int chunk = 0; chunk < settings.chunks(); ++chunk) {
    const bool up = settings.schedule == ScheduleKind::zbv && chunk >= settings.stages;
    stages.push_back(up ? settings.chunks() - 1 - chunk : chunk % settings.stages);
  }
  return stages;
}

bool splits_weight_gradients(ScheduleKind kind) { return kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zbv; }

std::vector<ScheduledTask> make_schedule(const Settings& settings, int stage, int micro_batches) {
  switch (settings.schedule) {
    case ScheduleKind::naive:
      return naive_schedule(stage, micro_batches);
    case ScheduleKind::gpipe:
      return gpipe_schedule(stage, micro_batches);
    case ScheduleKind::one_forward_one_backward:
      return one_forward_one_backward_schedule(stage, settings.stages, micro_batches);
    case ScheduleKind::interleaved:
      return interleaved_schedule(stage, settings.stages, settings.virtual_stages, micro_batches);
    case ScheduleKind::zb_h1:
      return zb_h1_schedule(stage, settings.stages, micro_batches);
    case ScheduleKind::zbv:
      return zbv_schedule(stage, settings.stages, micro_batches);
  }
  throw VerificationError("unknown pipeline schedule");
}

}  // namespace pipeline
