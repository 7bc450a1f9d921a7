#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/partition/gathered_values.hpp"
#include "compiler/partition/partition.hpp"
#include "compiler/program/program_builder.hpp"
#include "compiler/program/task_key.hpp"

namespace strata::host {

/// Where a value is after its producer ran.
struct Home {
  BufferId buffer = -1;
  Layout layout;
  AxisSet partial;
  Reduction reduction = Reduction::sum;
  TaskKey task;
};

/// Every value of the graph on a rank of one stage: where it is, and how it comes to where it is needed.
class Values {
 public:
  Values(const PartitionRequest& request, ProgramBuilder& builder, GatheredValues& gathered);

  /// The task that a node belongs to. W nodes stay beside the B nodes that differentiation put them next to, where what
  /// they read is alive, unless the schedule has tasks for them.
  [[nodiscard]] TaskKey task_of(const Node& node) const;
  [[nodiscard]] bool is_here(const Node& node) const { return request_.stages.stage(node) == request_.stage; }

  /// Registers the stage's parameter at `index` of the program.
  void add_parameter(const Parameter& parameter, std::size_t index, BufferId buffer, Layout layout);
  /// Null for what is not (yet) on this stage.
  [[nodiscard]] const Home* find(Value value) const;
  /// Says where a value is. A partial one is completed at once unless its only reader takes it as it is.
  void define(Value value, Home home);
  /// Makes a value a second name of another.
  void alias(Value value, Value of);
  /// Brings a value to rest: whole, in its canonical layout, in its producer's task; and sends it to stages that read
  /// it.
  void complete(Value value);

  /// The buffer that holds `value` in `layout` for an instruction of `task` that works for `block`; conversions are
  /// shared within a task.
  BufferId fetch(Value value, const Layout& layout, const TaskKey& task, int block);
  /// Emits the conversion of a value to another layout, complete but for `keep`.
  BufferId convert(Value value, const Home& home, const Layout& to, const AxisSet& keep, const TaskKey& task);

  /// For people: names buffers and communications.
  [[nodiscard]] std::string label(Value value, const TaskKey& task) const;
  [[nodiscard]] bool is_read(Value value) const { return uses_.contains(value); }

 private:
  struct Use {
    const Node* node;
    int operand;
  };

  [[nodiscard]] bool may_stay_partial(Value value, const Home& home) const;
  BufferId load(const Node& input, const Layout& layout, const TaskKey& task);
  void send_to_readers(Value value, const Home& home);
  BufferId receive(Value value, const TaskKey& task);
  [[nodiscard]] Instruction message(InstructionKind kind, Value value, int from_stage, int to_chunk) const;

  const PartitionRequest& request_;
  ProgramBuilder& builder_;
  GatheredValues& gathered_;
  std::map<Value, std::vector<Use>> uses_;
  std::map<Value, Home> home_;
  std::map<Value, std::size_t> parameters_;
  std::map<std::tuple<BufferId, Layout, TaskKey>, BufferId> converted_;
  std::map<std::tuple<std::string, Layout, int>, BufferId> loaded_;
  std::map<std::pair<Value, int>, BufferId> received_;  // by chunk
  std::set<Value> sent_;
  std::map<int, std::ptrdiff_t> load_count_;  // by chunk
};

}  // namespace strata::host
