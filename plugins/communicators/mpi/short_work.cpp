#include "short_work.hpp"

#include <cstdint>

#include "strata/error.hpp"

namespace strata::mpi {

const std::byte* ShortWork::part_for(int index) const {
  const CollectiveKind kind = place_.call().kind;
  const bool splits = kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all;
  return place_.input(splits ? place_.piece() * index : 0);
}

std::vector<std::byte> ShortWork::payload(int index) const {
  const std::int64_t bytes = place_.piece() * place_.width();
  const bool silent = place_.call().kind == CollectiveKind::broadcast && place_.index() != place_.call().root;
  if (bytes == 0 || silent) return {};
  const std::byte* part = part_for(index);
  return {part, part + bytes};
}

void ShortWork::run(std::vector<Control> arrivals) {
  complete_ = true;
  const std::int64_t elements = place_.piece();
  const std::int64_t bytes = elements * place_.width();
  if (bytes == 0) return;
  std::vector<const void*> parts;
  for (int i = 0; i < place_.size(); ++i) {
    const std::vector<std::byte>& payload = arrivals[static_cast<std::size_t>(i)].payload;
    parts.push_back(i == place_.index() ? part_for(i) : payload.data());
  }
  const CollectiveCall& call = place_.call();
  switch (call.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
      return place_.fabric.reduce(call, call.output, parts, elements);
    case CollectiveKind::broadcast:
      return place_.fabric.copy(call.output, parts[static_cast<std::size_t>(call.root)], bytes);
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      for (int i = 0; i < place_.size(); ++i) {
        place_.fabric.copy(place_.output(elements * i), parts[static_cast<std::size_t>(i)], bytes);
      }
  }
}

}  // namespace strata::mpi
