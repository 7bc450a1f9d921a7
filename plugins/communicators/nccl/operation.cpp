#include "operation.hpp"

#include <cstddef>

namespace strata::nccl {
namespace {

std::int64_t bytes_of(const CollectiveCall& call) {
  return call.elements * static_cast<std::int64_t>(size_of(call.dtype));
}

/// Fuses NCCL calls into one. The destructor ends the group, also after an error.
class CallGroup {
 public:
  explicit CallGroup(NcclLibrary& nccl) : nccl_(nccl) { nccl_.begin_group(); }
  ~CallGroup() {
    if (ended_) return;
    try {
      nccl_.end_group();
    } catch (...) {
      // Report the first error, not this one.
    }
  }
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  void end() {
    ended_ = true;
    nccl_.end_group();
  }

 private:
  NcclLibrary& nccl_;
  bool ended_ = false;
};

/// Composed of messages, because NCCL has no all_to_all: every rank sends to every rank, including itself.
void all_to_all(const CollectiveCall& call, const Link& link, NcclLibrary& nccl, void* stream) {
  const std::int64_t piece = bytes_of(call) / link.size();
  CallGroup group(nccl);
  for (int peer = 0; peer < link.size(); ++peer) {
    nccl.send(link.handle(), stream, static_cast<const std::byte*>(call.input) + peer * piece, piece, peer);
    nccl.receive(link.handle(), stream, static_cast<std::byte*>(call.output) + peer * piece, piece, peer);
  }
  group.end();
}

void enqueue_collective(const CollectiveCall& call, const Link& link, NcclLibrary& nccl, void* stream) {
  void* const handle = link.handle();
  switch (call.kind) {
    case CollectiveKind::all_reduce:
      return nccl.all_reduce(handle, stream, call.input, call.output, call.elements, call.dtype, call.reduction);
    case CollectiveKind::all_gather:
      return nccl.all_gather(handle, stream, call.input, call.output, call.elements, call.dtype);
    case CollectiveKind::reduce_scatter:
      return nccl.reduce_scatter(handle, stream, call.input, call.output, call.elements / link.size(), call.dtype,
                                 call.reduction);
    case CollectiveKind::broadcast:
      return nccl.broadcast(handle, stream, call.input, call.output, call.elements, call.dtype, call.root);
    case CollectiveKind::all_to_all:
      return all_to_all(call, link, nccl, stream);
  }
}

/// Copies data that needs no other rank.
void copy(GpuRuntime& gpu, void* stream, void* to, const void* from, std::int64_t bytes) {
  if (to != from) gpu.copy(stream, to, from, bytes);
}

}  // namespace

bool enqueue(const Operation& operation, NcclLibrary& nccl, GpuRuntime& gpu, void* stream) {
  if (operation.is_empty()) return false;
  const MessageCall& message = operation.message;
  switch (operation.kind) {
    case Operation::Kind::collective:
      if (operation.link->size() > 1) {
        enqueue_collective(operation.call, *operation.link, nccl, stream);
        return true;
      }
      copy(gpu, stream, operation.call.output, operation.call.input, bytes_of(operation.call));
      return false;
    case Operation::Kind::send:
      if (!operation.link) return false;
      nccl.send(operation.link->handle(), stream, message.data, message.bytes, 1);
      return true;
    case Operation::Kind::receive:
      if (operation.link) {
        nccl.receive(operation.link->handle(), stream, message.data, message.bytes, 0);
        return true;
      }
      copy(gpu, stream, message.data, operation.own_message, message.bytes);
      return false;
  }
  return false;
}

}  // namespace strata::nccl
