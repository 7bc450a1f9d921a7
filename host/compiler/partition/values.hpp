#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/partition/gathered_values.hpp"
#include "compiler/partition/messages.hpp"
#include "compiler/partition/partition.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// Where a value is, and in which layout, after its producer ran.
struct Home {
  BufferId buffer = -1;
  Layout layout;
  AxisSet partial;
  Reduction reduction = Reduction::sum;
  TaskKey task;
};

/// All values of the graph on a rank of one stage: their buffers, and their conversions to other layouts.
class Values {
 public:
  Values(const PlacedModel& model, int stage, ProgramBuilder& builder, GatheredValues& gathered);

  [[nodiscard]] TaskKey task_of(const Node& node) const { return host::task_of(model_.stages, node); }
  [[nodiscard]] bool is_here(const Node& node) const { return model_.stages.stage(node) == stage_; }

  /// Registers a parameter of the stage. `index` is its number in the program.
  void add_parameter(const Parameter& parameter, std::size_t index, BufferId buffer, Layout layout);
  /// Null if the value is not (yet) on this stage.
  [[nodiscard]] const Home* find(Value value) const;
  /// Records where a value is. A partial value is completed at once, unless its only reader accepts it as it is.
  void define(Value value, Home home);
  /// Makes `value` an alias of `other`.
  void alias(Value value, Value other);
  /// Converts a value to its canonical layout, not partial, in its producer's task. Then sends it to the stages that
  /// read it.
  void complete(Value value);

  /// The buffer that holds `value` in `layout`, for an instruction of `task` and `block`. Equal conversions are shared
  /// within a task.
  BufferId fetch(Value value, const Layout& layout, const TaskKey& task, int block);
  /// Orders the receives of each task and channel as their messages are sent, because some communicators match messages
  /// by their order. A receive that is first read after those of later messages moves before the first of them. Runs
  /// when all nodes are lowered.
  void order_receives();
  /// Emits the conversion of a value to another layout. The value stays partial over `keep`.
  BufferId convert(Value value, const Home& home, const Layout& to, const AxisSet& keep, const TaskKey& task);

  /// Name for buffers and communications.
  [[nodiscard]] std::string label(Value value, const TaskKey& task) const {
    return value_label(model_.graph, value, task);
  }
  [[nodiscard]] bool is_read(Value value) const { return model_.index.uses.contains(value); }

 private:
  [[nodiscard]] bool may_stay_partial(Value value, const Home& home) const;
  BufferId load(const Node& input, const Layout& layout, const TaskKey& task);
  void send_to_readers(Value value, const Home& home);
  BufferId receive(Value value, const TaskKey& task);
  /// Messages of one task are sent in the order of their producers in the graph, then of their results.
  using SendOrder = std::pair<std::size_t, int>;

  const PlacedModel& model_;
  int stage_;
  ProgramBuilder& builder_;
  GatheredValues& gathered_;
  std::map<Value, Home> home_;
  std::map<Value, std::size_t> parameters_;
  std::map<std::tuple<BufferId, Layout, TaskKey>, BufferId> converted_;
  std::map<std::tuple<std::string, Layout, int>, BufferId> loaded_;
  std::map<std::pair<Value, int>, BufferId> received_;  // by chunk
  std::map<std::uint64_t, SendOrder> receives_;         // by the message's id
  std::set<Value> sent_;
  std::map<int, std::ptrdiff_t> load_count_;  // by chunk
};

/// The conversion of one value from one layout to another.
struct ConversionRequest {
  BufferId buffer = -1;
  Dims dims;
  Layout from;
  /// Axes over which the value is partial and which the conversion resolves. The value may stay partial over others.
  AxisSet partial;
  Reduction reduction = Reduction::sum;
  Layout to;
  /// Prefix for the names of buffers and communications.
  std::string label;
};

/// Emits the conversion to `instructions`, in this order:
/// 1. Partial axes: reduce_scatter if the target is sharded over the axis right there, else all_reduce.
/// 2. Axes that leave a dimension: all_to_all if another dimension takes the axis, else all_gather.
/// 3. Local slices for axes that are added.
/// \return the buffer in the new layout, which is the given buffer if no instruction is needed.
BufferId emit_conversion(ProgramBuilder& builder, const LayoutRules& rules, const ConversionRequest& request,
                         std::vector<Instruction>& instructions);

}  // namespace strata::host
