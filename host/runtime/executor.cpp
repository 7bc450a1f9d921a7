#include "runtime/executor.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/element.hpp"
#include "runtime/launcher.hpp"
#include "runtime/prepared_program.hpp"
#include "strata/error.hpp"

namespace strata::host {

struct Executor::State {
  State(const Program& given, const MemoryPlan& memory, int of, std::uint64_t seed, Device& on, Communicator& through,
        std::shared_ptr<Arena> in)
      : program(given),
        plan(memory),
        rank(of),
        device(on),
        communicator(through),
        arena(std::move(in)),
        prepared(prepare(given, of, seed, on, through)),
        launcher(given, memory, prepared, on, through, *arena) {
    if (arena->bytes() < plan.arena_bytes) {
      throw VerificationError("an arena of " + std::to_string(arena->bytes()) + " bytes for a program of " +
                              std::to_string(plan.arena_bytes));
    }
  }

  void run(std::uint64_t step, double learning_rate, InputSource& inputs);
  /// What an error says of its place.
  [[nodiscard]] std::string place(std::uint64_t step, const TaskInstance& at, std::size_t instruction) const {
    return "rank " + std::to_string(rank) + ", step " + std::to_string(step) + ", " +
           describe(program, at, instruction) + ": ";
  }
  /// Where a buffer that outlives its task lies: of a transient one, in the last micro-batch that has it.
  [[nodiscard]] std::byte* memory(BufferId buffer) const;
  [[nodiscard]] double scalar(BufferId buffer) const;

  const Program& program;
  const MemoryPlan& plan;
  int rank;
  Device& device;
  Communicator& communicator;
  std::shared_ptr<Arena> arena;
  PreparedProgram prepared;
  Launcher launcher;
};

void Executor::State::run(std::uint64_t step, double learning_rate, InputSource& inputs) {
  for (const TaskInstance& at : program.schedule) {
    const StepContext context{step, std::max(at.micro_batch, 0), learning_rate};
    const auto& instructions = prepared.tasks.at(static_cast<std::size_t>(at.task));
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      try {
        launcher.launch(instructions[i], at.micro_batch, context, inputs);
      } catch (const AbortedError& error) {
        throw AbortedError(place(step, at, i) + error.what());
      } catch (const std::exception& error) {
        throw RuntimeError(place(step, at, i) + error.what());
      }
    }
  }
  launcher.requests().wait_for_all();
  device.synchronize(StreamKind::compute);
}

std::byte* Executor::State::memory(BufferId buffer) const {
  const std::vector<std::int64_t>& offsets = plan.offsets.at(static_cast<std::size_t>(buffer));
  const auto found = offsets.at(0) >= 0 ? std::make_reverse_iterator(offsets.begin() + 1)
                                        : std::find_if(offsets.rbegin(), offsets.rend(),
                                                       [](std::int64_t offset) { return offset >= 0; });
  if (found == offsets.rend()) {
    throw VerificationError("program '" + program.name + "' has no memory for buffer " + describe(program, buffer));
  }
  return arena->data() + *found;
}

double Executor::State::scalar(BufferId buffer) const {
  std::byte bytes[sizeof(double)];
  device.copy_to_host(StreamKind::compute, bytes, memory(buffer), program.buffer(buffer).bytes());
  return load_element(program.buffer(buffer).dtype, bytes, 0);
}

Executor::Executor(const Program& program, const MemoryPlan& plan, int rank, std::uint64_t seed, Device& device,
                   Communicator& communicator, std::shared_ptr<Arena> arena)
    : state_(std::make_unique<State>(program, plan, rank, seed, device, communicator, std::move(arena))) {}

Executor::~Executor() = default;

Reports Executor::run(std::uint64_t step, double learning_rate, InputSource& inputs) {
  for (auto& [key, traffic] : state_->prepared.traffic) traffic = {};
  state_->launcher.requests().reset_seconds();
  try {
    state_->run(step, learning_rate, inputs);
  } catch (const std::exception& error) {
    // Peers may read this rank's memory until their waits have ended.
    state_->communicator.abort(error.what());
    state_->launcher.requests().drain();
    throw;
  }
  Reports reports;
  for (const auto& [name, buffer] : state_->program.reports) {
    if (state_->program.buffer(buffer).elements() == 1) reports[name] = state_->scalar(buffer);
  }
  return reports;
}

void Executor::read(BufferId buffer, void* host) {
  state_->device.copy_to_host(StreamKind::compute, host, state_->memory(buffer),
                              state_->program.buffer(buffer).bytes());
}

void Executor::write(BufferId buffer, const void* host) {
  state_->device.copy_from_host(StreamKind::compute, state_->memory(buffer), host,
                                state_->program.buffer(buffer).bytes());
  state_->device.synchronize(StreamKind::compute);
}

const std::map<std::string, Traffic>& Executor::traffic() const { return state_->prepared.traffic; }
double Executor::wait_seconds() const { return state_->launcher.requests().seconds(); }
const Program& Executor::program() const { return state_->program; }
int Executor::rank() const { return state_->rank; }
const Arena& Executor::arena() const { return *state_->arena; }

}  // namespace strata::host
