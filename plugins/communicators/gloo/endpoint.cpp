#include "endpoint.hpp"

#include <exception>
#include <sstream>
#include <utility>

#include "strata/error.hpp"

namespace strata::gloo {
namespace {

/// A lost connection usually follows from another rank's failure, which the store reports within this time.
constexpr std::chrono::seconds kTimeForTheCause{3};

}  // namespace

Endpoint::Endpoint(std::unique_ptr<Mesh> mesh, std::shared_ptr<ProcessMail> mail,
                   std::shared_ptr<rendezvous::Store> store, int rank, std::chrono::duration<double> timeout)
    : rank_(rank),
      mesh_(std::move(mesh)),
      mail_(std::move(mail)),
      timeout_(timeout),
      watch_(std::move(store), rank, [this] {
        if (mesh_) mesh_->close();
        mail_->close(rank_);
      }) {}

Endpoint::~Endpoint() = default;

Clock::time_point Endpoint::deadline() const {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout_);
}

std::string Endpoint::timeout_text() const {
  std::ostringstream text;
  text << timeout_.count() << " s";
  return text.str();
}

void Endpoint::perform(const communicators::Operation& operation, const std::function<void()>& work) {
  std::string why;
  try {
    return work();
  } catch (const Stopped&) {
    raise_end(operation);
  } catch (const Late& late) {
    why = "waited " + timeout_text() + " for rank " + std::to_string(late.peer);
  } catch (const Trouble& trouble) {
    why = trouble.why;
  } catch (const std::exception& error) {
    why = error.what();
  }
  const std::string text = communicators::fault_text(operation, why);
  if (!watch_.fail(text)) raise_end(operation);
  throw RuntimeError(text);
}

void Endpoint::transfer(int peer, const std::function<void()>& call) {
  if (watch_.end()) throw Stopped{};
  try {
    call();
  } catch (const std::exception& error) {
    if (watch_.end(kTimeForTheCause)) throw Stopped{};
    throw Trouble{"the connection to rank " + std::to_string(peer) + " is lost: " + error.what()};
  }
}

void Endpoint::raise_end(const communicators::Operation& operation) {
  const auto end = watch_.end();
  if (end && end->is_own) throw RuntimeError(end->reason);
  throw AbortedError(communicators::fault_text(operation, "stopped because " + (end ? end->reason : "the run ended")));
}

}  // namespace strata::gloo
