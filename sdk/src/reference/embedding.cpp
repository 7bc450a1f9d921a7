#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

/// The local row that holds global row `id`, or -1 if this rank does not hold it.
std::int64_t local_row(const IndexMap& map, std::int64_t id) {
  for (const IndexSegment& segment : map.segments) {
    const std::int64_t offset = id - segment.global_begin;
    if (offset >= 0 && offset < segment.length) return segment.local_begin + offset;
  }
  return -1;
}

Work prepare_embedding(const OpInstance& op) {
  const IndexMap map = index_map(op, op.operands[0].dims[0]);
  return [map](const Launch& launch) {
    const Reader table = launch.operand(0);
    const Reader ids = launch.operand(1);
    const Writer y = launch.result(0);
    const std::int64_t width = columns(launch.op().results[0]);
    const std::int64_t count = elements(launch.op().operands[1]);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = local_row(map, static_cast<std::int64_t>(ids[i]));
      for (std::int64_t j = 0; j < width; ++j) y.set(i * width + j, row < 0 ? 0.0 : table[row * width + j]);
    }
  };
}

Work prepare_embedding_gradient(const OpInstance& op) {
  const IndexMap map = index_map(op, op.results[0].dims[0]);
  return [map](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Reader ids = launch.operand(1);
    const Writer dtable = launch.result(0);
    const std::int64_t width = columns(launch.op().results[0]);
    const std::int64_t count = elements(launch.op().operands[1]);
    if (!launch.op().accumulate) {
      for (std::int64_t i = 0; i < elements(launch.op().results[0]); ++i) dtable.overwrite(i, 0.0);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = local_row(map, static_cast<std::int64_t>(ids[i]));
      if (row < 0) continue;
      for (std::int64_t j = 0; j < width; ++j) {
        dtable.overwrite(row * width + j, dtable.get(row * width + j) + dy[i * width + j]);
      }
    }
  };
}

}  // namespace

void register_embedding(Registration& registration) {
  registration.add(kernel({"embedding", "ri", "r", prepare_embedding}));
  registration.add(kernel({"embedding_gradient", "ri", "r", prepare_embedding_gradient}));
}

}  // namespace strata::reference
