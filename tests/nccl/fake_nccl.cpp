#include "fake_nccl.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "communicator/host_device.hpp"
#include "communicator/host_stream.hpp"
#include "strata/error.hpp"

namespace strata::testing {

using Bytes = std::vector<std::byte>;

/// State that the ranks of a communicator share.
struct FakeNccl::Shared {
  struct Meeting {
    std::map<int, Collective> calls;
    std::map<int, Bytes> inputs;
  };
  struct Parcel {
    Bytes data;
    std::shared_ptr<bool> taken;
  };

  int size = 0;
  std::set<int> joined;
  /// Ranks that have started their first communication, and ranks that have started to end the communicator.
  std::set<int> started;
  std::set<int> finalized;
  std::map<std::size_t, Meeting> meetings;
  std::map<std::pair<int, int>, std::deque<Parcel>> parcels;
  std::string error;
};

struct FakeNccl::Rank {
  std::shared_ptr<Shared> shared;
  int index = 0;
  int blocks = 0;
  /// Kinds of communication that the communicator has executed.
  std::set<std::string> kinds;
  bool finalizes = false;
  /// How often is_ready() still returns false.
  int busy = 0;
  bool over = false;
  bool aborted = false;
  /// Number of collectives that have started to run.
  std::size_t collectives = 0;
  HostStream* stream = nullptr;
  std::function<void()> launch;
  /// Its use count is the number of operations of this communicator in graphs, plus one.
  std::shared_ptr<int> graphs = std::make_shared<int>();

  /// Waits until no graph contains an operation of the communicator, as the real library does.
  void await_graphs() const {
    while (graphs.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

namespace {

/// Nesting depth of groups on this thread.
thread_local int group_depth = 0;
/// The work that the thread's group starts at its end.
thread_local std::function<void()> grouped;

Bytes copy_of(const void* data, std::int64_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  return {begin, begin + bytes};
}

/// Throws if a condition fails whose violation would corrupt or hang the real library.
void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("fake NCCL: ") + what);
}

}  // namespace

FakeNccl::FakeNccl() = default;
FakeNccl::~FakeNccl() = default;

std::string FakeNccl::make_id() {
  const std::lock_guard lock(mutex_);
  return "id " + std::to_string(ids_++);
}

void* FakeNccl::begin_communicator(const std::string& id, int size, int index, int blocks) {
  const std::lock_guard lock(mutex_);
  note_setup();
  std::shared_ptr<Shared>& shared = communicators_[id];
  if (!shared) shared = std::make_shared<Shared>();
  shared->size = size;
  require(shared->joined.insert(index).second, "two ranks at one position");
  ranks_.push_back(std::make_unique<Rank>());
  ranks_.back()->shared = shared;
  ranks_.back()->index = index;
  ranks_.back()->blocks = blocks;
  ranks_.back()->busy = 2;
  return ranks_.back().get();
}

bool FakeNccl::is_ready(void* communicator) {
  const std::lock_guard lock(mutex_);
  Rank& rank = *static_cast<Rank*>(communicator);
  Shared& shared = *rank.shared;
  require(!rank.over, "use of a communicator that has ended");
  if (!error_.empty()) throw RuntimeError(error_);
  if (!shared.error.empty()) throw RuntimeError(shared.error);
  if (static_cast<int>(shared.joined.size()) < shared.size) return false;
  if (rank.launch && static_cast<int>(shared.started.size()) < shared.size) return false;
  if (rank.finalizes && static_cast<int>(shared.finalized.size()) < shared.size) return false;
  if (rank.busy > 0 && --rank.busy > 0) return false;
  if (rank.launch) rank.stream->push(std::exchange(rank.launch, nullptr));
  return true;
}

FakeNccl::Rank& FakeNccl::use(void* communicator) {
  Rank& rank = *static_cast<Rank*>(communicator);
  require(!rank.over, "use of a communicator that has ended");
  require(rank.busy == 0 && !rank.launch && static_cast<int>(rank.shared->joined.size()) == rank.shared->size,
          "use of a communicator that is not ready");
  return rank;
}

void FakeNccl::note_setup() {
  ++setups_;
  if (gpus_[std::this_thread::get_id()].running > 0) ++setups_beside_kernels_;
}

void FakeNccl::begin(Rank& rank, void* stream, const std::string& kind, std::function<void()> work) {
  if (rank.kinds.insert(kind).second) note_setup();
  rank.busy = 3;
  rank.shared->started.insert(rank.index);
  rank.stream = static_cast<HostStream*>(stream);
  const bool captured = rank.stream->capture() != nullptr;
  // Captured operations do not run now.
  Gpu* const gpu = captured ? nullptr : &gpus_[std::this_thread::get_id()];
  if (gpu != nullptr) ++gpu->running;
  rank.launch = [this, gpu, work = std::move(work), held = captured ? rank.graphs : nullptr] {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    work();
    const std::lock_guard lock(mutex_);
    if (gpu != nullptr) --gpu->running;
  };
}

void FakeNccl::start(void* communicator, void* stream, const Collective& collective) {
  const std::lock_guard lock(mutex_);
  Rank& rank = use(communicator);
  Collective own = collective;
  own.captured = static_cast<HostStream*>(stream)->capture() != nullptr;
  gpus_[std::this_thread::get_id()].launches.emplace_back(rank.shared->size, own.kind);
  begin(rank, stream, std::string(to_string(own.kind)), [this, &rank, own] { run(rank, own); });
}

void FakeNccl::start(void* communicator, void* stream, const Message& message) {
  const auto begin_all = [this, communicator, stream](const std::vector<Message>& messages) {
    const std::lock_guard lock(mutex_);
    Rank& rank = use(communicator);
    begin(rank, stream, "messages", [this, &rank, messages] { run(rank, messages); });
  };
  if (group_depth == 0) return begin_all({message});
  thread_local std::vector<Message> messages;
  thread_local void* used = nullptr;
  require(messages.empty() || used == communicator, "a group over two communicators");
  used = communicator;
  messages.push_back(message);
  grouped = [begin_all] { begin_all(std::exchange(messages, {})); };
}

void FakeNccl::begin_group() { ++group_depth; }

void FakeNccl::end_group() {
  require(group_depth > 0, "the end of a group that was not begun");
  if (--group_depth == 0 && grouped) std::exchange(grouped, nullptr)();
}

void FakeNccl::run(Rank& rank, const Collective& own) {
  const auto width = static_cast<std::int64_t>(size_of(own.dtype));
  std::unique_lock lock(mutex_);
  Shared& shared = *rank.shared;
  Shared::Meeting& meeting = shared.meetings[rank.collectives++];
  meeting.calls[rank.index] = own;
  meeting.inputs[rank.index] = copy_of(own.input, own.elements * width);
  const bool differ = std::any_of(meeting.calls.begin(), meeting.calls.end(), [&](const auto& entry) {
    const Collective& other = entry.second;
    return other.kind != own.kind || other.dtype != own.dtype || other.elements != own.elements ||
           other.captured != own.captured;
  });
  if (differ) shared.error = "unhandled: the ranks do not mean the same";
  changed_.notify_all();
  changed_.wait(lock, [&] {
    return rank.aborted || (shared.error.empty() && static_cast<int>(meeting.inputs.size()) == shared.size);
  });
  if (rank.aborted) return;

  std::vector<const void*> sources;
  Bytes joined;
  for (const auto& [index, input] : meeting.inputs) {
    sources.push_back(input.data());
    joined.insert(joined.end(), input.begin(), input.end());
  }
  const auto put = [&](const Bytes& from, std::int64_t begin, std::int64_t elements) {
    std::memcpy(own.output, from.data() + begin * width, static_cast<std::size_t>(elements * width));
  };
  const auto reduced = [&] {
    Bytes result(meeting.inputs.begin()->second.size());
    HostDevice().reduce(StreamKind::communication, own.reduction, own.dtype, result.data(), sources, own.elements);
    return result;
  };
  const std::int64_t piece = own.elements / shared.size;
  switch (own.kind) {
    case CollectiveKind::all_reduce:
      return put(reduced(), 0, own.elements);
    case CollectiveKind::reduce_scatter:
      return put(reduced(), rank.index * piece, piece);
    case CollectiveKind::all_gather:
      return put(joined, 0, own.elements * shared.size);
    case CollectiveKind::broadcast:
      return put(meeting.inputs.at(own.root), 0, own.elements);
    case CollectiveKind::all_to_all:
      return;  // NCCL has no such collective
  }
}

void FakeNccl::run(Rank& rank, const std::vector<Message>& messages) {
  std::unique_lock lock(mutex_);
  Shared& shared = *rank.shared;
  std::vector<std::shared_ptr<bool>> sent;
  for (const Message& message : messages) {
    if (!message.sends) continue;
    sent.push_back(std::make_shared<bool>(false));
    shared.parcels[{rank.index, message.peer}].push_back({copy_of(message.data, message.bytes), sent.back()});
  }
  changed_.notify_all();
  for (const Message& message : messages) {
    if (message.sends) continue;
    std::deque<Shared::Parcel>& parcels = shared.parcels[{message.peer, rank.index}];
    changed_.wait(lock, [&] { return rank.aborted || !parcels.empty(); });
    if (rank.aborted) return;
    const Shared::Parcel parcel = parcels.front();
    parcels.pop_front();
    if (static_cast<std::int64_t>(parcel.data.size()) != message.bytes) {
      shared.error = "unhandled: a message of another length";
      changed_.wait(lock, [&] { return rank.aborted; });
      return;
    }
    std::memcpy(message.data, parcel.data.data(), parcel.data.size());
    *parcel.taken = true;
    changed_.notify_all();
  }
  // As strict as NCCL may be: a send ends only when its receive ends.
  changed_.wait(lock, [&] {
    return rank.aborted || std::all_of(sent.begin(), sent.end(), [](const auto& taken) { return *taken; });
  });
}

void FakeNccl::collective(void* communicator, void* stream, const CollectiveCall& call, int /*size*/) {
  start(communicator, stream,
        Collective{call.kind, call.reduction, call.dtype, call.input, call.output, call.elements, call.root});
}

void FakeNccl::send(void* communicator, void* stream, const void* data, std::int64_t bytes, int peer) {
  start(communicator, stream, Message{true, const_cast<void*>(data), bytes, peer});
}

void FakeNccl::receive(void* communicator, void* stream, void* data, std::int64_t bytes, int peer) {
  start(communicator, stream, Message{false, data, bytes, peer});
}

void FakeNccl::finalize(void* communicator) {
  const std::lock_guard lock(mutex_);
  Rank& rank = use(communicator);
  rank.busy = 2;
  rank.finalizes = true;
  rank.shared->finalized.insert(rank.index);
}

void FakeNccl::destroy(void* communicator) {
  static_cast<Rank*>(communicator)->await_graphs();
  const std::lock_guard lock(mutex_);
  use(communicator).over = true;
}

void FakeNccl::abort(void* communicator) noexcept {
  Rank& rank = *static_cast<Rank*>(communicator);
  {
    const std::lock_guard lock(mutex_);
    rank.over = rank.aborted = true;
    rank.launch = nullptr;
    changed_.notify_all();
  }
  rank.await_graphs();
}

void FakeNccl::break_communicators(const std::string& error) {
  const std::lock_guard lock(mutex_);
  error_ = error;
}

int FakeNccl::live() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(), [](const auto& rank) { return !rank->over; }));
}

int FakeNccl::aborted() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count_if(ranks_, [](const auto& rank) { return rank->aborted; }));
}

std::vector<int> FakeNccl::begun_sizes() {
  const std::lock_guard lock(mutex_);
  std::vector<int> sizes;
  for (const auto& rank : ranks_) sizes.push_back(rank->shared->size);
  return sizes;
}

std::vector<int> FakeNccl::begun_blocks() {
  const std::lock_guard lock(mutex_);
  std::vector<int> blocks;
  for (const auto& rank : ranks_) blocks.push_back(rank->blocks);
  return blocks;
}

int FakeNccl::setups() {
  const std::lock_guard lock(mutex_);
  return setups_;
}

int FakeNccl::setups_beside_kernels() {
  const std::lock_guard lock(mutex_);
  return setups_beside_kernels_;
}

std::vector<std::vector<std::pair<int, CollectiveKind>>> FakeNccl::launches() {
  const std::lock_guard lock(mutex_);
  std::vector<std::vector<std::pair<int, CollectiveKind>>> all;
  for (const auto& [thread, gpu] : gpus_) all.push_back(gpu.launches);
  return all;
}

}  // namespace strata::testing
