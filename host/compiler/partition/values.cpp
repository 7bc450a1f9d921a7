#include "compiler/partition/values.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "compiler/program/program_builder.hpp"
#include "strata/error.hpp"

namespace strata::host {

Values::Values(const PlacedModel& model, int stage, ProgramBuilder& builder, GatheredValues& gathered)
    : model_(model), stage_(stage), builder_(builder), gathered_(gathered) {}

void Values::add_parameter(const Parameter& parameter, std::size_t index, BufferId buffer, Layout layout) {
  parameters_[parameter.value] = index;
  home_[parameter.value] = {buffer, std::move(layout), {}, Reduction::sum, {}};
}

const Home* Values::find(Value value) const {
  const auto found = home_.find(value);
  return found == home_.end() ? nullptr : &found->second;
}

void Values::define(Value value, Home home) {
  const bool stays = !is_read(value) || may_stay_partial(value, home);
  home_[value] = std::move(home);
  if (!stays) complete(value);
}

void Values::alias(Value value, Value other) { home_[value] = home_.at(other); }

/// A partial sum may stay partial if its only reader is in the same task and accepts it.
bool Values::may_stay_partial(Value value, const Home& home) const {
  if (home.partial.empty() || home.reduction != Reduction::sum) return false;
  const auto& uses = model_.index.uses.at(value);
  if (uses.size() != 1) return false;
  const Node& reader = *uses.front().node;
  return is_here(reader) && task_of(reader) == home.task &&
         model_.registry()
             .get(reader.op)
             .iteration(model_.graph, reader)
             .partial_operands.contains(uses.front().operand);
}

void Values::complete(Value value) {
  const auto found = home_.find(value);
  if (found == home_.end()) return;
  Home& home = found->second;
  const Layout canonical = model_.at_rest(value);
  if (!home.partial.empty() || home.layout != canonical) {
    home.buffer = convert(value, home, canonical, {}, home.task);
    home.layout = canonical;
    home.partial.clear();
  }
  if (!parameters_.contains(value)) send_to_readers(value, home);
}

BufferId Values::fetch(Value value, const Layout& layout, const TaskKey& task, int block) {
  const Node& producer = model_.graph.node(value.node);
  if (producer.is_input()) return load(producer, layout, task);
  BufferId buffer = -1;
  Home home;
  if (const auto known = home_.find(value); known != home_.end()) {
    home = known->second;
    if (!home.partial.empty()) throw VerificationError("value '" + producer.name + "' is read while it is partial");
    const auto parameter = parameters_.find(value);
    const bool gathers = parameter != parameters_.end() && gathered_.contains(parameter->second);
    buffer = gathers ? gathered_.view(parameter->second, builder_.buffer(home.buffer), task, block) : home.buffer;
  } else {
    buffer = receive(value, task);
    home.layout = model_.at_rest(value);
  }
  if (home.layout == layout) return buffer;
  const TaskKey backward{Task::Kind::backward, task.chunk};
  for (const TaskKey& where : {task, task.kind == Task::Kind::weight ? backward : task}) {
    const auto known = converted_.find({buffer, layout, where});
    if (known != converted_.end()) return known->second;
  }
  home.buffer = buffer;
  const BufferId converted = convert(value, home, layout, {}, task);
  converted_.emplace(std::make_tuple(buffer, layout, task), converted);
  return converted;
}

BufferId Values::convert(Value value, const Home& home, const Layout& to, const AxisSet& keep, const TaskKey& task) {
  ConversionRequest conversion;
  conversion.buffer = home.buffer;
  conversion.dims = model_.graph.type(value).dims;
  conversion.from = home.layout;
  std::set_difference(home.partial.begin(), home.partial.end(), keep.begin(), keep.end(),
                      std::inserter(conversion.partial, conversion.partial.end()));
  conversion.reduction = home.reduction;
  conversion.to = to;
  conversion.label = label(value, task);
  return emit_conversion(builder_, model_.rules, conversion, builder_.task(task).instructions);
}

/// Loads an input in the forward task, and keeps the copy for the backward pass. Inputs are small integer tensors.
BufferId Values::load(const Node& input, const Layout& layout, const TaskKey& task) {
  const auto key = std::make_tuple(input.name, layout, task.chunk);
  const auto known = loaded_.find(key);
  if (known != loaded_.end()) return known->second;
  const TensorType& type = input.results.front();
  const BufferId buffer = builder_.add_buffer(input.name, BufferKind::activation, type.dtype, type.dims,
                                              model_.rules.local_shape(type.dims, layout));
  LoadInput work;
  for (std::size_t i = 0; i < type.dims.size(); ++i) {
    work.dims.push_back(sharded_dim(model_.rules, type.dims[i], model_.graph.sizes.at(type.dims[i]), layout[i]));
  }
  Instruction instruction{.name = input.name, .work = std::move(work), .outputs = {buffer}};
  auto& forward = builder_.task({Task::Kind::forward, task.chunk}).instructions;
  // Loads go to the front of the forward task, because the backward task may be the first to ask for this layout.
  forward.insert(forward.begin() + load_count_[task.chunk]++, std::move(instruction));
  loaded_.emplace(key, buffer);
  return buffer;
}

// --- other stages

void Values::send_to_readers(Value value, const Home& home) {
  if (!sent_.insert(value).second) return;
  std::set<int> chunks;
  for (const GraphIndex::Use& use : model_.index.uses_of(value)) {
    if (!is_here(*use.node)) chunks.insert(model_.stages.chunk(use.node->block));
  }
  for (const int chunk : chunks) {
    StageMessage message = stage_message(model_, value, chunk);
    const Peer peer{model_.stages.axis, model_.stages.stage(chunk)};
    builder_.task(home.task).instructions.push_back(
        {.name = std::move(message.name), .work = Send{peer, message.id, message.channel}, .inputs = {home.buffer}});
  }
}

BufferId Values::receive(Value value, const TaskKey& task) {
  const auto key = std::make_pair(value, task.chunk);
  const auto known = received_.find(key);
  if (known != received_.end()) return known->second;
  const Node& producer = model_.graph.node(value.node);
  const TensorType& type = model_.graph.type(value);
  StageMessage message = stage_message(model_, value, task.chunk);
  const Peer peer{model_.stages.axis, model_.stages.stage(producer)};
  const BufferId buffer = builder_.add_buffer(message.name, BufferKind::activation, type.dtype, type.dims,
                                              model_.rules.local_shape(type.dims, model_.at_rest(value)));
  builder_.task(message.receiver)
      .instructions.push_back(
          {.name = std::move(message.name), .work = Receive{peer, message.id, message.channel}, .outputs = {buffer}});
  receives_.emplace(message.id, SendOrder{model_.index.position.at(value.node), value.result});
  received_.emplace(key, buffer);
  return buffer;
}

void Values::order_receives() {
  for (Task& task : builder_.program().tasks) {
    std::vector<Instruction>& instructions = task.instructions;
    // By channel, the positions of the receives in the order of the sends.
    std::map<int, std::map<SendOrder, std::size_t>> channels;
    for (std::size_t at = 0; at < instructions.size(); ++at) {
      const auto* receive = instructions[at].as<Receive>();
      const auto known = receive == nullptr ? receives_.end() : receives_.find(receive->id);
      if (known != receives_.end()) channels[receive->channel][known->second] = at;
    }
    if (channels.empty()) continue;
    std::vector<std::tuple<std::size_t, SendOrder, std::size_t>>
        order;  // new position, order of the send, old position
    constexpr SendOrder kAfterReceives{std::numeric_limits<std::size_t>::max(), 0};
    for (std::size_t at = 0; at < instructions.size(); ++at) order.emplace_back(at, kAfterReceives, at);
    for (const auto& [channel, receives] : channels) {
      std::size_t first = instructions.size();
      for (auto each = receives.rbegin(); each != receives.rend(); ++each) {
        first = std::min(first, each->second);
        order[each->second] = {first, each->first, each->second};
      }
    }
    std::ranges::sort(order);
    std::vector<Instruction> ordered;
    ordered.reserve(instructions.size());
    for (const auto& [to, sent, from] : order) ordered.push_back(std::move(instructions[from]));
    instructions = std::move(ordered);
  }
}

}  // namespace strata::host
