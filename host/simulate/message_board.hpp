#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
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
    const Key key = key_of(receive.flight->work->classes.front(), *receive.flight);
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

  static Key key_of(int sender, const InFlight& flight) {
    return {sender, communication_id(*flight.work->instruction), flight.micro_batch};
  }

  std::map<Key, Arrival> sent_;
  std::map<Key, std::vector<Arrival>> posted_;
  std::map<std::tuple<int, int, int>, double> channels_;
};

}  // namespace strata::host
