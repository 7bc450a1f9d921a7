#include "control.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "strata/error.hpp"

namespace strata::mpi {
namespace {

/// The fixed part of an encoded control message. All ranks run the same program on machines of one kind.
struct Header {
  std::uint64_t key = 0;
  std::uint64_t sequence = 0;
  std::uint64_t id = 0;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  std::int32_t root = 0;
  std::int32_t tag = 0;
  std::uint32_t text = 0;
  std::uint32_t payload = 0;
  ControlKind kind = ControlKind::arrival;
  CollectiveKind collective = CollectiveKind::all_reduce;
  Reduction reduction = Reduction::sum;
  DType dtype = DType::f32;
  bool broken = false;
};

static_assert(std::is_trivially_copyable_v<Header>);

}  // namespace

std::vector<std::byte> encode(const Control& control) {
  Header header;
  std::memset(static_cast<void*>(&header), 0, sizeof header);  // padding, too
  header.key = control.key;
  header.sequence = control.sequence;
  header.id = control.call.id;
  header.elements = control.call.elements;
  header.bytes = control.bytes;
  header.root = control.call.root;
  header.tag = control.tag;
  const std::size_t room = kControlBytes - sizeof header - control.payload.size();
  header.text = static_cast<std::uint32_t>(std::min(control.text.size(), room));
  header.payload = static_cast<std::uint32_t>(control.payload.size());
  header.kind = control.kind;
  header.collective = control.call.kind;
  header.reduction = control.call.reduction;
  header.dtype = control.call.dtype;
  header.broken = control.broken;
  std::vector<std::byte> bytes(sizeof header + header.text + header.payload);
  std::byte* place = bytes.data();
  std::memcpy(place, &header, sizeof header);
  place += sizeof header;
  if (header.text > 0) std::memcpy(place, control.text.data(), header.text);
  if (header.payload > 0) std::memcpy(place + header.text, control.payload.data(), header.payload);
  return bytes;
}

Control decode(std::span<const std::byte> bytes) {
  Header header;
  const bool has_header = bytes.size() >= sizeof header;
  if (has_header) std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  if (!has_header || bytes.size() != sizeof header + header.text + header.payload) {
    throw RuntimeError("found a control message of " + std::to_string(bytes.size()) +
                       " bytes with another length inside; accepted: ranks that run the same build of Strata");
  }
  Control control;
  control.kind = header.kind;
  control.broken = header.broken;
  control.call.kind = header.collective;
  control.call.reduction = header.reduction;
  control.call.dtype = header.dtype;
  control.call.root = header.root;
  control.call.elements = header.elements;
  control.call.id = header.id;
  control.key = header.key;
  control.sequence = header.sequence;
  control.tag = header.tag;
  control.bytes = header.bytes;
  const std::byte* text = bytes.data() + sizeof header;
  control.text.assign(reinterpret_cast<const char*>(text), header.text);
  control.payload.assign(text + header.text, text + header.text + header.payload);
  return control;
}

}  // namespace strata::mpi
