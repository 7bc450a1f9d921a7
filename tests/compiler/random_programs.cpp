#include "random_programs.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "strata/error.hpp"
#include "strata/registration.hpp"

namespace strata::host::test {
namespace {

class Mix : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return "mix"; }
  [[nodiscard]] std::string documentation() const override { return "x… -> y of the first operand's type"; }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }
};

class Unary final : public Mix {
 public:
  [[nodiscard]] std::string name() const override { return "unary"; }
  [[nodiscard]] std::vector<int> in_place_operands(int /*result*/) const override { return {0}; }
};

/// Properties in which all stages must agree.
struct Shared {
  std::uint32_t seed = 0;
  RandomRanksOptions options;
  std::int64_t boundary = 0;
  bool one_forward_one_backward = false;
};

constexpr std::int64_t kTiedElements = 512;

class StageMaker {
 public:
  StageMaker(const Shared& shared, int stage, const Mesh& mesh)
      : shared_(shared),
        stage_(stage),
        random_(shared.seed * 64 + static_cast<std::uint32_t>(stage)),
        sketch_(program_) {
    program_.name = "stage " + std::to_string(stage);
    program_.mesh = mesh;
    program_.micro_batches = shared.options.micro_batches;
  }

  Program run() {
    store_parameter();
    make_prologue();
    make_forward();
    make_backward();
    make_epilogue();
    make_schedule();
    return std::move(program_);
  }

 private:
  [[nodiscard]] bool is_last() const { return stage_ + 1 == shared_.options.stages; }
  [[nodiscard]] std::uint64_t own_id() { return static_cast<std::uint64_t>(100'000 * (stage_ + 1)) + next_id_++; }

  void store_parameter() {
    const std::int64_t elements = 1024 + 256 * static_cast<std::int64_t>(pick(random_, 8));
    values_ = sketch_.flat("values", BufferKind::parameter, elements, true);
    gradients_ = sketch_.flat("gradients", BufferKind::gradient, elements, true);
    for (const char* name : {"first", "second"}) {
      moments_.push_back(sketch_.flat(name, BufferKind::optimizer, elements, true));
      program_.buffers.back().place = shared_.seed % 2 == 0 ? MemoryPlace::host : MemoryPlace::file;
      staged_moments_.push_back(sketch_.flat(std::string(name) + " staged", BufferKind::optimizer, elements));
    }
    tied_ = sketch_.flat("tied", BufferKind::gradient, kTiedElements, true);
    early_ = sketch_.flat("early", BufferKind::gradient, shared_.boundary, true);
    StoredParameter parameter;
    parameter.name = "weight";
    parameter.dims = {{"n" + std::to_string(elements), elements, {}, false}};
    parameter.value = sketch_.view("weight", values_, 0, elements);
    parameter.gradient = sketch_.view("weight.gradient", gradients_, 0, elements);
    weight_ = parameter.value;
    weight_gradient_ = parameter.gradient;
    program_.parameters.push_back(std::move(parameter));
  }

  /// Appends an instruction with the waits that communication and transfers in flight require. Ops have the form in
  /// which the device was offered them.
  void push(Instruction instruction) {
    const bool is_collective = instruction.is<Collective>();
    const auto wait_for = [&](BufferId id, bool write) {
      const auto found = in_flight_.find(program_.root(id));
      if (found == in_flight_.end()) return;
      const auto [written, by_collective] = found->second;
      if ((!write && !written) || (is_collective && by_collective)) return;
      instruction.waits.push_back(id);
      in_flight_.erase(found);
    };
    for (const BufferId id : instruction.inputs) wait_for(id, false);
    for (const BufferId id : instruction.outputs) wait_for(id, true);
    if (auto* compute = instruction.as<Compute>()) {
      compute->workspace_bytes = compute->workspace == -1 ? 0 : program_.buffer(compute->workspace).bytes();
    }
    if (is_asynchronous(instruction)) {
      for (const BufferId id : instruction.inputs) note_in_flight(id, false, is_collective);
      for (const BufferId id : instruction.outputs) note_in_flight(id, true, is_collective);
    }
    program_.tasks[static_cast<std::size_t>(task_)].instructions.push_back(std::move(instruction));
  }

  void note_in_flight(BufferId id, bool written, bool is_collective) {
    auto& [any_written, all_collective] = in_flight_.try_emplace(program_.root(id), false, true).first->second;
    any_written = any_written || written;
    all_collective = all_collective && is_collective;
  }

  void make_prologue() {
    task_ = sketch_.task(Task::Kind::prologue);
    for (const BufferId buffer : {gradients_, tied_, early_}) push(sketch_.flat_op("fill_zero", {}, {buffer}));
    const BufferId seed = sketch_.flat("seed", BufferKind::activation, 4, true);
    Instruction broadcast = sketch_.collective(CollectiveKind::broadcast, own_id(), "tp", seed, seed);
    broadcast.as<Collective>()->root = shared_.options.tensor - 1;
    push(std::move(broadcast));
  }

  [[nodiscard]] BufferId any_live() { return live_[pick(random_, live_.size())]; }
  [[nodiscard]] std::int64_t size(BufferId id) const { return program_.buffer(id).elements(); }
  [[nodiscard]] std::string next_name() { return "v" + std::to_string(program_.buffers.size()); }

  void random_step() {
    const std::size_t choice = pick(random_, 10);
    if (choice < 3) {
      const BufferId x = any_live();
      live_.push_back(sketch_.buffer(next_name(), size(x)));
      Instruction unary = sketch_.op("unary", next_name(), {x}, live_.back());
      if (choice == 0) unary.as<Compute>()->workspace = sketch_.flat("scratch", BufferKind::workspace, 300);
      push(std::move(unary));
    } else if (choice < 5) {
      const BufferId x = any_live();
      const BufferId y = any_live();
      live_.push_back(sketch_.buffer(next_name(), size(x)));
      push(sketch_.op("mix", next_name(), x == y ? std::vector{x} : std::vector{x, y}, live_.back()));
    } else if (choice < 6) {
      update_in_place();
    } else {
      random_collective();
    }
  }

  void update_in_place() {
    const std::size_t at = pick(random_, live_.size());
    const BufferId x = live_[at];
    if (x == main_ || x == dy_ || program_.buffer(x).base >= 0) return;
    live_[at] = sketch_.view(next_name(), x, 0, size(x));
    push(sketch_.op("unary", next_name(), {x}, live_[at]));
  }

  void random_collective() {
    const BufferId x = any_live();
    const auto kind = static_cast<CollectiveKind>(pick(random_, 5));
    const int ranks = shared_.options.tensor;
    std::int64_t elements = size(x);
    if (kind == CollectiveKind::all_gather) elements *= ranks;
    if (kind == CollectiveKind::reduce_scatter) elements /= ranks;
    if (elements > 16 * shared_.boundary || elements < 64) return;
    const bool in_place = kind == CollectiveKind::all_reduce && pick(random_, 2) == 0;
    const BufferId y = in_place ? x : sketch_.buffer(next_name(), elements);
    Instruction instruction = sketch_.collective(kind, own_id(), "tp", x, y);
    Collective& collective = *instruction.as<Collective>();
    if (kind == CollectiveKind::broadcast)
      collective.root = static_cast<int>(pick(random_, static_cast<std::size_t>(ranks)));
    if (pick(random_, 3) == 0) collective.reduction = Reduction::max;
    push(std::move(instruction));
    if (!in_place) live_.push_back(y);
  }

  void make_forward() {
    task_ = sketch_.task(Task::Kind::forward);
    main_ = sketch_.buffer("x", shared_.boundary);
    if (stage_ == 0) {
      push(sketch_.load("x", main_));
    } else {
      push(sketch_.receive(static_cast<std::uint64_t>(1000 + stage_ - 1), "pp", stage_ - 1, main_));
    }
    live_ = {main_};
    for (int i = 0; i < shared_.options.steps; ++i) random_step();
    BufferId y = sketch_.buffer("y", shared_.boundary);
    push(sketch_.op("mix", "y", {main_, weight_, any_live()}, y));
    push(sketch_.collective(CollectiveKind::all_reduce, own_id(), "tp", y, y));
    if (is_last()) {
      live_.push_back(y);
    } else {
      push(sketch_.send(static_cast<std::uint64_t>(1000 + stage_), "pp", stage_ + 1, y));
    }
  }

  void make_backward() {
    task_ = sketch_.task(Task::Kind::backward);
    if (!is_last()) {
      live_.push_back(sketch_.buffer("dy", shared_.boundary));
      push(sketch_.receive(static_cast<std::uint64_t>(2000 + stage_), "pp", stage_ + 1, live_.back()));
    }
    dy_ = live_.back();
    for (int i = 0; i < shared_.options.steps; ++i) random_step();
    const BufferId dw = sketch_.buffer("dw", size(weight_));
    push(sketch_.op("mix", "dw", {weight_, any_live(), any_live()}, dw));
    Instruction accumulate = sketch_.flat_op("accumulate", {dw}, {weight_gradient_});
    accumulate.as<Compute>()->accumulate = true;
    push(std::move(accumulate));
    push(sketch_.flat_op("accumulate", {dy_}, {early_}));
    Instruction complete = sketch_.collective(CollectiveKind::all_reduce, kCompletionId, "dp", early_, early_);
    complete.occurrence = Occurrence::last;
    push(std::move(complete));
    if (stage_ == 0) return;
    const BufferId dx = sketch_.buffer("dx", shared_.boundary);
    push(sketch_.op("mix", "dx", {main_, any_live(), dy_}, dx));
    push(sketch_.send(static_cast<std::uint64_t>(2000 + stage_ - 1), "pp", stage_ - 1, dx));
  }

  void make_epilogue() {
    task_ = sketch_.task(Task::Kind::epilogue);
    for (std::size_t i = 0; i < moments_.size(); ++i) push(sketch_.transfer(moments_[i], staged_moments_[i]));
    push(sketch_.collective(CollectiveKind::all_reduce, 1, "dp", gradients_, gradients_));
    push(sketch_.collective(CollectiveKind::all_reduce, 2, "pp", tied_, tied_));
    const BufferId norm = scalar("norm");
    push(sketch_.flat_op("sum_of_squares", {gradients_}, {norm}));
    const BufferId count = scalar("count");
    push(sketch_.flat_op("fill_zero", {}, {count}));
    push(sketch_.collective(CollectiveKind::all_reduce, 3, "tp", norm, norm));
    push(sketch_.collective(CollectiveKind::all_reduce, 4, "pp", norm, norm));
    push(sketch_.collective(CollectiveKind::all_reduce, 5, "pp", count, count));
    const BufferId early_norm = scalar("norm of early");
    push(sketch_.flat_op("sum_of_squares", {early_}, {early_norm}));
    push(sketch_.flat_op("accumulate", {early_norm}, {norm}));
    push(sketch_.flat_op("accumulate", {norm}, {count}));
    push(sketch_.flat_op("adamw_update", {gradients_, count}, {values_, staged_moments_[0], staged_moments_[1]}));
    for (std::size_t i = 0; i < moments_.size(); ++i) push(sketch_.transfer(staged_moments_[i], moments_[i]));
    program_.reports["norm"] = norm;
  }

  BufferId scalar(const std::string& name) {
    const BufferId id = sketch_.flat(name, BufferKind::activation, 1);
    program_.buffers.back().dtype = DType::f64;
    return id;
  }

  /// Tasks are numbered in order of creation: prologue, forward, backward, epilogue.
  void make_schedule() {
    const int warm_up = shared_.one_forward_one_backward
                            ? std::min(shared_.options.micro_batches, shared_.options.stages - stage_)
                            : shared_.options.micro_batches;
    const auto run = [this](int task, int micro_batch) {
      program_.schedule.push_back({task, micro_batch, micro_batch + 1 == shared_.options.micro_batches});
    };
    program_.schedule.push_back({0, -1});
    for (int i = 0; i < warm_up; ++i) run(1, i);
    for (int i = 0; i < shared_.options.micro_batches; ++i) {
      run(2, i);
      if (warm_up + i < shared_.options.micro_batches) run(1, warm_up + i);
    }
    program_.schedule.push_back({3, -1});
  }

  const Shared& shared_;
  int stage_;
  std::mt19937 random_;
  Program program_;
  ProgramSketch sketch_;
  int task_ = 0;
  std::uint64_t next_id_ = 0;
  BufferId values_ = -1, gradients_ = -1, tied_ = -1, early_ = -1, weight_ = -1, weight_gradient_ = -1, main_ = -1,
           dy_ = -1;
  /// Moments outside of the device, and their copies on the device during the update.
  std::vector<BufferId> moments_;
  std::vector<BufferId> staged_moments_;
  std::vector<BufferId> live_;
  /// For each root buffer: whether communication in flight writes it, and whether all of that is collectives.
  std::map<BufferId, std::pair<bool, bool>> in_flight_;
};

}  // namespace

OpRegistry test_ops() {
  OpRegistry registry;
  KernelRegistry kernels;
  register_core(registry, kernels);
  registry.add(std::make_unique<Mix>(), "the test");
  registry.add(std::make_unique<Unary>(), "the test");
  return registry;
}

RankPrograms RandomRanks::ranks(int rank, const Program* replaced) const {
  RankPrograms result{mesh, {}};
  for (int each = 0; each < mesh.rank_count(); ++each) {
    result.programs.push_back(each == rank ? replaced : &stages[static_cast<std::size_t>(stage_of(each))]);
  }
  return result;
}

RandomRanks make_random_ranks(std::uint32_t seed, const RandomRanksOptions& options) {
  RandomRanks result;
  result.mesh = Mesh({{"pp", options.stages}, {"dp", options.data}, {"tp", options.tensor}});
  std::mt19937 random(seed);
  Shared shared{seed, options, 512 * (1 + static_cast<std::int64_t>(pick(random, 4))) * options.tensor,
                pick(random, 2) == 0};
  for (int stage = 0; stage < options.stages; ++stage)
    result.stages.push_back(StageMaker(shared, stage, result.mesh).run());
  return result;
}

std::size_t pick(std::mt19937& random, std::size_t count) { return random() % count; }

std::string plan_refusal(const Program& program, const MemoryPlan& plan) {
  try {
    verify_memory(program, test_ops(), plan);
  } catch (const VerificationError& error) {
    return error.what();
  }
  return {};
}

}  // namespace strata::host::test
