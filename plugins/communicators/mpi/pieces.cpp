#include "pieces.hpp"

#include <cstdint>

namespace strata::mpi {

bool Pieces::sends(int from, int to) const {
  const CollectiveCall& call = place_.call();
  return from != to && (call.kind != CollectiveKind::broadcast || from == call.root);
}

const std::byte* Pieces::piece_for(int index) const {
  return place_.input(place_.call().kind == CollectiveKind::all_to_all ? place_.piece() * index : 0);
}

std::byte* Pieces::place_of(int index) const {
  return place_.output(place_.call().kind == CollectiveKind::broadcast ? 0 : place_.piece() * index);
}

void Pieces::expect(int tag) {
  const std::int64_t bytes = place_.piece() * place_.width();
  for (int step = 1; step < place_.size(); ++step) {
    const int peer = place_.neighbour(place_.size() - step);
    if (!sends(peer, place_.index())) continue;
    ++awaited_;
    place_.fabric.transfers.receive(place_.ticket, place_of(peer), bytes, place_.rank_of(peer), tag,
                                    [this] { --awaited_; });
  }
}

void Pieces::run(std::vector<Control> arrivals) {
  runs_ = true;
  const std::int64_t bytes = place_.piece() * place_.width();
  for (int step = 1; step < place_.size(); ++step) {
    const int peer = place_.neighbour(step);
    if (!sends(place_.index(), peer)) continue;
    ++awaited_;
    place_.fabric.transfers.send(place_.ticket, piece_for(peer), bytes, place_.rank_of(peer),
                                 arrivals[static_cast<std::size_t>(peer)].tag, [this] { --awaited_; });
  }
  const bool keeps = place_.call().kind != CollectiveKind::broadcast || place_.index() == place_.call().root;
  if (keeps) place_.fabric.copy(place_of(place_.index()), piece_for(place_.index()), bytes);
}

}  // namespace strata::mpi
