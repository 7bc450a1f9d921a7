#include "runtime/executor.hpp"

#include <utility>

#include "runtime/element.hpp"
#include "runtime/flight_recorder.hpp"
#include "runtime/launcher.hpp"
#include "runtime/prepared_program.hpp"
#include "runtime/step_runner.hpp"
#include "strata/error.hpp"

namespace strata::host {

Arena::Arena(Device& device, std::int64_t bytes) : bytes_(bytes), memory_(device.allocate(bytes)) {
  if (memory_ != nullptr || bytes == 0) return;
  throw RuntimeError("the device (" + device.description() + ") gives no memory (a null pointer) for " +
                     std::to_string(bytes) + " bytes");
}

struct Executor::State {
  /// A slice of a buffer, in bytes from the buffer's begin.
  struct SliceBytes {
    const Buffer& buffer;
    std::int64_t begin;
    std::int64_t count;
  };

  State(const RankContext& rank, std::shared_ptr<Arena> arena_memory, std::shared_ptr<OffloadMemory> offload_memory,
        bool communicates_in_graphs)
      : context(rank),
        arena(std::move(arena_memory)),
        offload(std::move(offload_memory)),
        prepared(prepare(context)),
        launcher(context, prepared),
        runner(context, prepared, launcher, communicates_in_graphs) {
    require("an arena", arena->bytes(), context.plan.arena_bytes);
    const OffloadBytes outside = offload ? offload->bytes() : OffloadBytes{};
    require("host memory", outside.host, context.plan.offload.host);
    require("a file", outside.file, context.plan.offload.file);
  }

  static void require(const char* what, std::int64_t found, std::int64_t needed) {
    if (found >= needed) return;
    throw VerificationError(std::string(what) + " of " + std::to_string(found) + " bytes for a program of " +
                            std::to_string(needed));
  }

  /// Address of a buffer that is read after its task ends. For a per-micro-batch buffer, the address of its last
  /// instance.
  [[nodiscard]] std::byte* memory(BufferId buffer) const {
    const int micro_batch = context.plan.reported(buffer, context.program.micro_batches);
    return arena->data() + context.plan.offset(buffer, micro_batch);
  }

  [[nodiscard]] double scalar(BufferId buffer) const {
    std::byte bytes[sizeof(double)];
    const Buffer& source = context.program.buffer(buffer);
    context.device.copy_to_host(StreamKind::compute, bytes, memory(buffer), source.bytes());
    return load_element(source.dtype, bytes, 0);
  }

  [[nodiscard]] SliceBytes bytes_of(const BufferSlice& slice) const {
    const Buffer& buffer = context.program.buffer(slice.buffer);
    const auto size = static_cast<std::int64_t>(size_of(buffer.dtype));
    return {buffer, slice.begin * size, slice.elements * size};
  }

  RankContext context;
  std::shared_ptr<Arena> arena;
  std::shared_ptr<OffloadMemory> offload;
  PreparedProgram prepared;
  Launcher launcher;
  StepRunner runner;
  FlightRecorder* recorder = nullptr;
};

Executor::Executor(const Program& program, const MemoryPlan& plan, int rank, std::uint64_t seed, Device& device,
                   Communicator& communicator, std::shared_ptr<Arena> arena, std::shared_ptr<OffloadMemory> offload,
                   bool communicates_in_graphs) {
  const RankContext context{program, plan, rank, seed, device, communicator, *arena, offload.get()};
  state_ = std::make_unique<State>(context, std::move(arena), std::move(offload), communicates_in_graphs);
}

Executor::~Executor() = default;

void Executor::record_in(FlightRecorder& recorder) {
  state_->recorder = &recorder;
  state_->runner.record_in(recorder);
}

Reports Executor::run(const StepContext& step, InputSource& inputs) {
  for (auto& [key, traffic] : state_->prepared.traffic) traffic = {};
  state_->launcher.requests().reset_seconds();
  try {
    state_->runner.run(step, inputs);
  } catch (...) {
    if (state_->recorder != nullptr) state_->recorder->fail_with_current_exception();
    // Peers may read this rank's memory until their waits end, so it must stay until then.
    state_->context.communicator.abort(current_exception_text());
    state_->launcher.requests().drain();
    throw;
  }
  Reports reports;
  for (const auto& [name, buffer] : state_->context.program.reports) {
    if (state_->context.program.buffer(buffer).elements() == 1) reports[name] = state_->scalar(buffer);
  }
  return reports;
}

void Executor::read(BufferId buffer, void* host) {
  read({buffer, 0, state_->context.program.buffer(buffer).elements()}, host);
}

void Executor::write(BufferId buffer, const void* host) {
  write({buffer, 0, state_->context.program.buffer(buffer).elements()}, host);
}

void Executor::read(const BufferSlice& slice, void* host) {
  const RankContext& context = state_->context;
  const auto [buffer, begin, bytes] = state_->bytes_of(slice);
  if (buffer.place != MemoryPlace::device) {
    return state_->offload->read(buffer.place, context.plan.offset(buffer.id, -1) + begin, host, bytes);
  }
  context.device.copy_to_host(StreamKind::compute, host, state_->memory(buffer.id) + begin, bytes);
}

void Executor::write(const BufferSlice& slice, const void* host) {
  const RankContext& context = state_->context;
  const auto [buffer, begin, bytes] = state_->bytes_of(slice);
  if (buffer.place != MemoryPlace::device) {
    return state_->offload->write(buffer.place, context.plan.offset(buffer.id, -1) + begin, host, bytes);
  }
  context.device.copy_from_host(StreamKind::compute, state_->memory(buffer.id) + begin, host, bytes);
  context.device.synchronize(StreamKind::compute);
}

const std::map<std::string, Traffic>& Executor::traffic() const { return state_->prepared.traffic; }
double Executor::wait_seconds() const { return state_->launcher.requests().seconds(); }
std::optional<GraphUse> Executor::graph_use() const { return state_->runner.graph_use(); }
const Program& Executor::program() const { return state_->context.program; }
int Executor::rank() const { return state_->context.rank; }
const Arena& Executor::arena() const { return *state_->arena; }

}  // namespace strata::host
