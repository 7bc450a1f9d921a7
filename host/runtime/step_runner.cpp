#include "runtime/step_runner.hpp"

#include <algorithm>

#include "compiler/program/step_variants.hpp"
#include "runtime/prepared_program.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Launching a graph costs about as much as launching a few kernels, so shorter segments are not captured.
constexpr std::size_t kShortestGraph = 3;

/// Runs `work`. Adds the result of `place()` to the message of an error.
template <class Work, class Place>
void name_place(const Work& work, const Place& place) {
  try {
    work();
  } catch (const AbortedError& error) {
    throw AbortedError(place() + ": " + error.what());
  } catch (...) {
    throw RuntimeError(place() + ": " + current_exception_text());
  }
}

}  // namespace

StepRunner::StepRunner(const RankContext& context, const PreparedProgram& prepared, Launcher& launcher,
                       bool communicates_in_graphs)
    : context_(context),
      prepared_(prepared),
      launcher_(launcher),
      // On host memory, load() writes input data between two launches, which a graph would combine.
      refusal_(context.device.is_host_memory() ? "the device works in host memory" : context.device.uncapturable()) {
  const Program& program = context.program;
  if (refusal_) {
    communication_outside_ = refusal_;
  } else if (context.communicator.rank_count() == 1) {
    communication_outside_ = "there is one rank";
  } else if (!communicates_in_graphs) {
    communication_outside_ = "ranks have transfers beside it";
  } else {
    communication_outside_ = context.communicator.uncapturable();
  }
  conditions_ = step_conditions(program);
  for (const StepVariant& each : step_variants(program).variants) {
    variants_.try_emplace(holding(conditions_, each.step));
  }
  if (!refusal_) plan_graphs();
}

template <class Visit>
void StepRunner::for_each_scheduled(std::uint64_t step, const Visit& visit) const {
  for (const TaskInstance& at : context_.program.schedule) {
    const std::vector<PreparedInstruction>& instructions = prepared_.tasks.at(static_cast<std::size_t>(at.task));
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = *instructions[i].instruction;
      if (at.runs(instruction) && instruction.when.holds(step)) visit(Scheduled{at, i, &instructions[i]});
    }
  }
}

void StepRunner::plan_graphs() {
  bool any = false;
  for (const StepVariant& each : step_variants(context_.program).variants) {
    Variant& variant = variants_.at(holding(conditions_, each.step));
    for_each_scheduled(each.step, [&](const Scheduled& scheduled) { variant.schedule.push_back(scheduled); });
    any = cut(variant) || any;
  }
  if (any) return;
  refusal_ = "nowhere are there " + std::to_string(kShortestGraph) + " instructions without communication between";
  for (auto& [conditions, variant] : variants_) {
    variant.schedule = std::vector<Scheduled>();
    variant.segments.clear();
  }
}

bool StepRunner::cut(Variant& variant) const {
  std::vector<Segment>& segments = variant.segments;
  for (std::size_t i = 0; i < variant.schedule.size(); ++i) {
    const Instruction& instruction = *variant.schedule[i].prepared->instruction;
    const bool capturable = is_capturable(instruction);
    // An instruction that waits for work outside of graphs starts a new segment.
    const bool waits =
        capturable && !communicates_in_graphs() && (!instruction.waits.empty() || !instruction.earlier_waits.empty());
    const bool continues = !segments.empty() && segments.back().is_capturable == capturable && !waits;
    if (!continues) segments.push_back({.begin = i, .is_capturable = capturable});
    segments.back().end = i + 1;
  }
  bool any = false;
  for (Segment& segment : segments) {
    // Segments with communication are captured at any length, because all ranks must capture their parts, or none.
    const bool is_long = communicates_in_graphs() || segment.end - segment.begin >= kShortestGraph;
    segment.is_capturable = segment.is_capturable && is_long;
    any = any || segment.is_capturable;
  }
  return any;
}

bool StepRunner::is_capturable(const Instruction& instruction) const {
  if (is_communication(instruction)) return communicates_in_graphs();
  if (instruction.is<Transfer>() && communicates_in_graphs()) {
    throw VerificationError("graphs cannot hold the communication of program '" + context_.program.name +
                            "', which has the transfer '" + instruction.name + "'");
  }
  return !instruction.is<Transfer>();
}

std::span<const StepRunner::Scheduled> StepRunner::instructions(const Segment& segment) const {
  return std::span(variant_->schedule).subspan(segment.begin, segment.end - segment.begin);
}

std::string StepRunner::step_text() const {
  // Logs and checkpoints count steps from 1.
  return "rank " + std::to_string(context_.rank) + ", step " + std::to_string(step_.step + 1);
}

std::string StepRunner::place(const Scheduled& scheduled) const {
  return step_text() + ", " + describe(context_.program, scheduled.at, scheduled.index);
}

void StepRunner::note(const Scheduled& scheduled, std::size_t count) const {
  if (recorder_ != nullptr) recorder_->begin(context_.program, scheduled.at, scheduled.index, count);
}

std::optional<GraphUse> StepRunner::graph_use() const {
  if (variant_ == nullptr || (!refusal_ && variant_->steps < 2)) return std::nullopt;
  if (refusal_) return GraphUse{.refusal = refusal_};
  GraphUse use{.instructions = variant_->schedule.size()};
  for (const Segment& segment : variant_->segments) {
    if (!segment.graph) continue;
    ++use.graphs;
    use.captured += segment.end - segment.begin;
  }
  const bool communicates = std::ranges::any_of(
      variant_->schedule, [](const Scheduled& each) { return is_communication(*each.prepared->instruction); });
  if (communicates) use.communication_outside = communication_outside_;
  return use;
}

void StepRunner::run(const StepContext& step, InputSource& inputs) {
  step_ = step;
  inputs_ = &inputs;
  variant_ = &variants_.at(holding(conditions_, step.step));
  if (recorder_ != nullptr) recorder_->begin_run();
  if (refusal_) {
    for_each_scheduled(step.step, [this](const Scheduled& each) {
      launch_one(each);
      count_traffic(*each.prepared);
    });
  } else {
    run_segments();
  }
  const auto end = [this] { return step_text() + ", its end"; };
  if (recorder_ != nullptr) recorder_->begin_end();
  // Communication that no instruction waits for may have failed too.
  name_place([&] { launcher_.requests().wait_for_all(); }, end);
  context_.device.synchronize(StreamKind::compute);
  name_place([&] { context_.communicator.check(); }, end);
  if (recorder_ != nullptr) recorder_->end_run();
  ++variant_->steps;
}

void StepRunner::run_segments() {
  for (Segment& segment : variant_->segments) {
    // Some kernels allocate or load code at their first launch, which capturing forbids. So the first step is not
    // captured.
    if (segment.is_capturable && !refusal_ && variant_->steps > 0) {
      launch_graph(segment);
    } else {
      launch_each(segment);
    }
    for (const Scheduled& scheduled : instructions(segment)) count_traffic(*scheduled.prepared);
  }
}

StepContext StepRunner::step_of(const Scheduled& scheduled) const {
  StepContext step = step_;
  step.micro_batch = std::max(scheduled.at.micro_batch, 0);
  return step;
}

void StepRunner::load(const Scheduled& scheduled) {
  if (!scheduled.prepared->instruction->is<LoadInput>()) return;
  launcher_.load(*scheduled.prepared, scheduled.at.micro_batch, step_of(scheduled), *inputs_);
}

void StepRunner::launch(const Scheduled& scheduled) {
  launcher_.launch(*scheduled.prepared, scheduled.at.micro_batch, step_of(scheduled));
}

void StepRunner::launch_each(const Segment& segment) {
  for (const Scheduled& scheduled : instructions(segment)) launch_one(scheduled);
}

void StepRunner::launch_one(const Scheduled& scheduled) {
  const auto work = [&] {
    note(scheduled);
    launcher_.wait(*scheduled.prepared, scheduled.at.micro_batch);
    load(scheduled);
    launch(scheduled);
  };
  name_place(work, [&] { return place(scheduled); });
}

void StepRunner::launch_graph(Segment& segment) {
  const std::span<const Scheduled> all = instructions(segment);
  if (!segment.graph && !capture(segment)) return launch_each(segment);
  note(all.front(), all.size());
  for (const Scheduled& scheduled : all) {
    name_place([&] { load(scheduled); }, [&] { return place(scheduled); });
  }
  const auto work = [&] {
    launcher_.wait(*all.front().prepared, all.front().at.micro_batch);
    segment.graph->launch(step_);
    if (segment.communication) segment.communication->launched();
  };
  name_place(work, [&] { return place(all.front()) + " and " + std::to_string(all.size() - 1) + " more as a graph"; });
}

bool StepRunner::capture(Segment& segment) {
  const auto launch_all = [&] { launch_in_capture(segment); };
  try {
    segment.graph = context_.device.capture([&] {
      if (!communicates_in_graphs()) return launch_all();
      segment.communication = context_.communicator.capture(launch_all);
    });
    return true;
  } catch (const AbortedError&) {
    throw;
  } catch (...) {
    const std::string why = current_exception_text();
    if (communicates_in_graphs()) {
      const std::string step = step_text();
      // A failed communication may be the reason why the capture failed, so report that error first.
      name_place([&] { context_.communicator.check(); }, [&] { return step; });
      throw RuntimeError(step + ": the step and its communication could not be captured: " + why);
    }
    // Single launches still work. Existing graphs are kept, because one may be running.
    refusal_ = why;
    return false;
  }
}

void StepRunner::launch_in_capture(const Segment& segment) {
  for (const Scheduled& scheduled : instructions(segment)) {
    const auto work = [&] {
      if (communicates_in_graphs()) launcher_.wait(*scheduled.prepared, scheduled.at.micro_batch);
      launch(scheduled);
    };
    name_place(work, [&] { return place(scheduled); });
  }
  if (communicates_in_graphs()) launcher_.requests().wait_for_all();
}

}  // namespace strata::host
