#include "compiler/partition/gradient_sinks.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

#include "compiler/placement/bucket.hpp"
#include "compiler/program/instructions.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/compiler_ops.hpp"

namespace strata::host {
namespace {

std::string name_of(const Sink& sink) {
  if (sink.kind == Sink::Kind::parameter_gradient) return sink.name + ".gradient";
  if (sink.kind == Sink::Kind::metric) return "metric " + sink.name;
  return sink.kind == Sink::Kind::loss ? "loss" : "count";
}

}  // namespace

GradientSinks::GradientSinks(const Graph& graph, const LayoutRules& rules, ProgramBuilder& builder,
                             const std::vector<Bucket>& dealt, const std::vector<PlacedMetric>& metrics)
    : graph_(graph), rules_(rules), builder_(builder), dealt_(dealt), placed_metrics_(metrics) {
  made_.dealt.resize(dealt.size());
  for (std::size_t i = 0; i < dealt.size(); ++i) {
    for (std::size_t k = 0; k < dealt[i].parameters.size(); ++k) {
      places_[builder.program().parameters[dealt[i].parameters[k]].name] = {i, dealt[i].offsets[k]};
    }
  }
}

Layout GradientSinks::layout(const Sink& sink) const {
  const Dims& dims = graph_.type(sink.value).dims;
  return sink.kind == Sink::Kind::parameter_gradient ? rules_.canonical(dims, sink.name) : Layout(dims.size());
}

const GradientSinks::Place* GradientSinks::dealt_place(const Sink& sink) const {
  if (sink.kind != Sink::Kind::parameter_gradient) return nullptr;
  const auto found = places_.find(sink.name);
  return found == places_.end() ? nullptr : &found->second;
}

bool GradientSinks::is_fresh(const Sink& sink, const AxisSet& partial, const TaskKey& task) const {
  const Place* place = dealt_place(sink);
  if (place == nullptr) return false;
  const auto known = task_gradients_.find({task, place->bucket, partial});
  return known == task_gradients_.end() || !known->second.views.contains(sink.name);
}

BufferId GradientSinks::contribute(const Sink& sink, const AxisSet& partial, const TaskKey& task) {
  const Place* place = dealt_place(sink);
  if (place == nullptr) return accumulator(sink, partial);
  const Bucket& bucket = dealt_[place->bucket];
  TaskGradient& gradient = task_gradients_[{task, place->bucket, partial}];
  if (gradient.flat < 0) {
    gradient.flat = builder_.add_flat(bucket.name + ".gradient" + partial_suffix(partial), BufferKind::gradient,
                                      bucket.gradient_type, bucket.elements);
  }
  const auto [view, added] = gradient.views.try_emplace(sink.name, -1);
  if (added) {
    const TensorType& type = graph_.type(sink.value);
    view->second = builder_.add_buffer(name_of(sink) + partial_suffix(partial), BufferKind::gradient,
                                       bucket.gradient_type, type.dims, rules_.local_shape(type.dims, layout(sink)));
    builder_.make_view(view->second, gradient.flat, place->offset);
  }
  return view->second;
}

DType GradientSinks::type_of(const Sink& sink) const {
  const DType type = graph_.type(sink.value).dtype;
  const Parameter* parameter = sink.kind == Sink::Kind::parameter_gradient ? graph_.find_parameter(sink.name) : nullptr;
  return parameter == nullptr ? accumulation_type(type) : gradient_type(*parameter, type);
}

BufferId GradientSinks::accumulator(const Sink& sink, const AxisSet& partial) {
  PartialAccumulators& accumulators = accumulators_of(sink);
  const auto known = accumulators.find(partial);
  if (known != accumulators.end()) return known->second;
  const TensorType& type = graph_.type(sink.value);
  const Shape shape = rules_.local_shape(type.dims, layout(sink));
  const BufferId buffer = builder_.add_buffer(name_of(sink) + partial_suffix(partial), BufferKind::gradient,
                                              type_of(sink), type.dims, shape, true);
  accumulators.emplace(partial, buffer);
  if (sink.kind == Sink::Kind::metric) place_metric(sink.name, buffer, partial);
  return buffer;
}

void GradientSinks::place_metric(const std::string& name, BufferId buffer, const AxisSet& partial) {
  const auto [flat, added] = made_.metrics.try_emplace(partial, -1);
  if (added) {
    flat->second = builder_.add_flat("metrics" + partial_suffix(partial), BufferKind::gradient, DType::f64,
                                     metric_elements(placed_metrics_), true);
  }
  const auto placed = std::ranges::find(placed_metrics_, name, &PlacedMetric::name);
  builder_.make_view(buffer, flat->second, placed->offset);
}

/// Moves the parameter to the end, so that the order is that of the latest contributions, in which gradients complete.
PartialAccumulators& GradientSinks::accumulators_of(const Sink& sink) {
  if (sink.kind == Sink::Kind::loss) return made_.loss;
  if (sink.kind == Sink::Kind::count) return made_.count;
  if (sink.kind == Sink::Kind::metric) return metrics_[sink.name];
  const auto found = std::ranges::find_if(made_.gradients, [&](const auto& each) { return each.first == sink.name; });
  if (found == made_.gradients.end()) {
    made_.gradients.emplace_back(sink.name, PartialAccumulators{});
  } else {
    std::rotate(found, found + 1, made_.gradients.end());
  }
  return made_.gradients.back().second;
}

void GradientSinks::reduce_task_gradients() {
  std::map<TaskKey, std::map<std::ptrdiff_t, std::vector<Reduction>>> behind;
  for (const auto& [key, gradient] : task_gradients_) {
    const TaskKey& task = std::get<0>(key);
    std::set<BufferId> views;
    for (const auto& [name, view] : gradient.views) views.insert(view);
    const auto is_view = [&](BufferId each) { return views.contains(each); };
    behind[task][last_writer(builder_.task(task), is_view)].push_back(reduction(key, gradient));
  }
  for (auto& [key, reductions] : behind) insert(builder_.task(key), reductions);
}

void GradientSinks::add_missing_gradients() {
  std::set<std::string> stored;
  for (const StoredParameter& parameter : builder_.program().parameters) stored.insert(parameter.name);
  for (const auto& [name, accumulators] : made_.gradients) stored.erase(name);
  for (const Sink& sink : graph_.sinks) {
    if (sink.kind != Sink::Kind::parameter_gradient || stored.erase(sink.name) == 0) continue;
    const Place* place = dealt_place(sink);
    if (place == nullptr) {
      accumulator(sink, {});
    } else if (made_.dealt[place->bucket].empty()) {
      piece_accumulator(place->bucket, {});
    }
  }
}

/// Inserts the reductions. As many are in flight as the gradients of one block have bytes, so that they overlap with
/// the backward pass of the next block. Those of the earliest start are finished first, where another one starts or at
/// the end of the task.
void GradientSinks::insert(Task& task, std::map<std::ptrdiff_t, std::vector<Reduction>>& behind) {
  const auto block_at = [&](std::ptrdiff_t at) { return task.instructions[static_cast<std::size_t>(at)].block; };
  std::map<int, std::int64_t> bytes_of_block;
  for (const auto& [at, reductions] : behind) {
    for (const Reduction& each : reductions) bytes_of_block[block_at(at)] += each.bytes;
  }
  Insertions insertions;
  std::deque<Reduction> in_flight;
  std::int64_t bytes_in_flight = 0;
  const auto finish_first = [&](std::vector<Instruction>& due) {
    std::move(in_flight.front().finish.begin(), in_flight.front().finish.end(), std::back_inserter(due));
    bytes_in_flight -= in_flight.front().bytes;
    in_flight.pop_front();
  };
  for (auto& [at, reductions] : behind) {
    std::vector<Instruction>& due = insertions[at];
    for (Reduction& each : reductions) {
      bytes_in_flight += each.bytes;
      while (!in_flight.empty() && bytes_in_flight > bytes_of_block[block_at(at)]) finish_first(due);
      for (Instruction& instruction : each.start) {
        instruction.block = block_at(at);
        due.push_back(std::move(instruction));
      }
      in_flight.push_back(std::move(each));
    }
  }
  while (!in_flight.empty()) finish_first(insertions[std::ssize(task.instructions) - 1]);
  host::insert(task, std::move(insertions));
}

GradientSinks::Reduction GradientSinks::reduction(const TaskGradientKey& key, const TaskGradient& gradient) {
  const auto& [task, index, partial] = key;
  const Bucket& bucket = dealt_[index];
  const std::string label = builder_.buffer(gradient.flat).name + " of " + std::string(to_string(task.kind)) + " " +
                            std::to_string(task.chunk);
  Reduction made{.bytes = builder_.buffer(gradient.flat).bytes()};
  fill_gaps(bucket, gradient, made.start);
  AxisSet remaining = partial;
  const BufferId piece = scatter_gradient(builder_, bucket, gradient.flat, remaining, label, made.start);
  made.finish.assign(after_last_asynchronous(made.start), made.start.cend());
  made.start.resize(made.start.size() - made.finish.size());
  made.finish.push_back(flat_op(ops::kAccumulate, label, {piece}, {piece_accumulator(index, remaining)}));
  return made;
}

/// Zeroes the padding, and the gradients of parameters without a contribution in the task.
void GradientSinks::fill_gaps(const Bucket& bucket, const TaskGradient& gradient,
                              std::vector<Instruction>& instructions) {
  std::int64_t end = 0;
  const auto fill = [&](std::int64_t begin, std::int64_t length) {
    if (length == 0) return;
    const std::string name = builder_.buffer(gradient.flat).name + " without contributions";
    const BufferId gap = builder_.add_flat(name, BufferKind::gradient, bucket.gradient_type, length);
    builder_.make_view(gap, gradient.flat, begin);
    instructions.push_back(flat_op(ops::kFillZero, name, {}, {gap}));
  };
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    const auto view = gradient.views.find(builder_.program().parameters[bucket.parameters[i]].name);
    if (view == gradient.views.end()) continue;
    fill(end, bucket.offsets[i] - end);
    end = bucket.offsets[i] + builder_.buffer(view->second).elements();
  }
  fill(end, bucket.elements - end);
}

BufferId GradientSinks::piece_accumulator(std::size_t index, const AxisSet& partial) {
  const Bucket& bucket = dealt_[index];
  for (const auto& [known, buffer] : made_.dealt[index]) {
    if (known == partial) return buffer;
  }
  const BufferId buffer = builder_.add_flat(bucket.name + ".gradient piece" + partial_suffix(partial),
                                            BufferKind::gradient, bucket.gradient_type, bucket.piece_elements(), true);
  made_.dealt[index].emplace_back(partial, buffer);
  return buffer;
}

}  // namespace strata::host
