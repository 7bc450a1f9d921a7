#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulate/rank_state.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Brings sends and receives together, whichever comes first.
class MessageBoard {
 public:
  /// \return the receives that wait for the message.
  std::vector<Arrival> add_send(const Arrival& send) {
    const Key key = key_of(send.number, *send.flight);
    sent_[key] = send;
    auto waiting = posted_.extract(key);
    return waiting.empty() ? std::vector<Arrival>{} : std::move(waiting.mapped());
  }

  /// \return the send, if there is one already.
  std::optional<Arrival> add_receive(const Arrival& receive) {
    const Key key = key_of(receive.flight->work->with->classes.front(), *receive.flight);
    const auto sent = sent_.find(key);
    if (sent != sent_.end()) return sent->second;
    posted_[key].push_back(receive);
    return std::nullopt;
  }

  /// When the channel of the message has delivered those before it.
  double& free(const Arrival& send, const Arrival& receive) {
    return channels_[{send.number, receive.number, send.flight->work->instruction->as<Send>()->channel}];
  }

 private:
  /// Sender's class, id, micro-batch.
  using Key = std::tuple<int, std::uint64_t, int>;
  struct Hash {
    std::size_t operator()(const Key& key) const {
      const auto& [sender, id, micro_batch] = key;
      return id + static_cast<std::size_t>(sender) * 0x9e3779b97f4a7c15U +
             static_cast<std::size_t>(micro_batch) * 0xc2b2ae3d27d4eb4fU;
    }
  };

  static Key key_of(int sender, const InFlight& flight) {
    return {sender, communication_id(*flight.work->instruction), flight.micro_batch};
  }

  std::unordered_map<Key, Arrival, Hash> sent_;
  std::unordered_map<Key, std::vector<Arrival>, Hash> posted_;
  std::map<std::tuple<int, int, int>, double> channels_;
};

}  // namespace strata::host
