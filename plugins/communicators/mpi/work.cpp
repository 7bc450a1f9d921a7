#include "work.hpp"

#include <utility>

#include "pieces.hpp"
#include "short_work.hpp"
#include "sums.hpp"

namespace strata::mpi {

std::int64_t WorkPlace::piece() const {
  const bool splits = call().kind == CollectiveKind::reduce_scatter || call().kind == CollectiveKind::all_to_all;
  return splits ? call().elements / size() : call().elements;
}

const std::byte* WorkPlace::input(std::int64_t element) const {
  return static_cast<const std::byte*>(call().input) + element * width();
}

std::byte* WorkPlace::output(std::int64_t element) const {
  return static_cast<std::byte*>(call().output) + element * width();
}

std::unique_ptr<Work> make_work(WorkPlace place) {
  const std::int64_t limit = place.fabric.carries_payload() ? kPayloadBytes : 0;
  if (place.size() == 1 || place.piece() * place.width() <= limit) return std::make_unique<ShortWork>(std::move(place));
  const CollectiveKind kind = place.call().kind;
  if (kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter) {
    return std::make_unique<Sums>(std::move(place));
  }
  return std::make_unique<Pieces>(std::move(place));
}

}  // namespace strata::mpi
