#include "join.hpp"

#include "client.hpp"
#include "protocol.hpp"
#include "server.hpp"

namespace strata::rendezvous {
namespace {

/// The store of rank 0: its board, and the server through which other ranks access the board.
class ServedBoard final : public Store {
 public:
  ServedBoard(const ProcessEnvironment& environment, Clock::time_point deadline, const Heartbeat& heartbeat)
      : server_(board_, listen_on(environment.address, environment.port), environment, heartbeat) {
    server_.await_ranks(deadline);
  }

  void put(const std::string& key, const std::string& value, int readers) override {
    require_storable(key, value);
    board_.put(key, value, readers);
  }
  [[nodiscard]] std::optional<std::string> take(const std::string& key, Clock::time_point deadline) override {
    return board_.take(key, deadline);
  }
  void fail(int rank, const std::string& reason) noexcept override { board_.fail(rank, reason); }
  [[nodiscard]] std::optional<Failure> failure() const override { return board_.failure(); }

 private:
  Board board_;
  Server server_;
};

}  // namespace

std::unique_ptr<Store> join(const ProcessEnvironment& environment, Clock::time_point deadline,
                            const Heartbeat& heartbeat) {
  if (environment.rank == 0) return std::make_unique<ServedBoard>(environment, deadline, heartbeat);
  return std::make_unique<Client>(environment, deadline, heartbeat);
}

}  // namespace strata::rendezvous
