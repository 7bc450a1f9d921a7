#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ring_lowering.hpp"

namespace context {

using namespace strata;

namespace {

/// The operands along the keys on their way around the ring, such as K, V and the documents of their tokens. Each is a
/// message of its own, because packing them into one would copy them.
class TravellingKeys {
 public:
  /// `operands`: the operands of hop 0.
  TravellingKeys(RingLowering& ring, std::vector<BufferId> operands) : ring_(ring), operands_(std::move(operands)) {
    for (const int operand : ring.key_operands()) travellers_.push_back({.operand = operand});
  }

  /// The operands of the current hop.
  [[nodiscard]] const std::vector<BufferId>& operands() const { return operands_; }
  /// The buffers sent last. They may be reused when that message is complete.
  [[nodiscard]] const std::vector<BufferId>& sent() const { return sent_; }

  /// Starts the exchange for hop `next` after the previous exchange is complete, so two sets of buffers suffice.
  void start(int hop, int next) {
    std::vector<BufferId> waits = sent_;
    sent_.clear();
    for (Traveller& each : travellers_) {
      const std::string name = "operand " + std::to_string(each.operand) + " for hop " + std::to_string(next);
      each.next = ring_.like_operand(name, each.operand);
      ring_.pass_on(name, next - hop, current(each), each.next, std::exchange(waits, {}));
      sent_.push_back(current(each));
    }
  }

  /// Makes the received keys the current ones.
  void advance() {
    for (const Traveller& each : travellers_) current(each) = each.next;
  }

 private:
  struct Traveller {
    int operand = 0;
    BufferId next = -1;
  };

  BufferId& current(const Traveller& each) { return operands_.at(static_cast<std::size_t>(each.operand)); }

  RingLowering& ring_;
  std::vector<BufferId> operands_;
  std::vector<Traveller> travellers_;
  std::vector<BufferId> sent_;
};

/// A result that is a sum over the hops.
class SummedResult {
 public:
  SummedResult(RingLowering& ring, int result) : ring_(ring), result_(result) {}
  virtual ~SummedResult() = default;
  SummedResult(const SummedResult&) = delete;
  SummedResult& operator=(const SummedResult&) = delete;

  /// Adds a buffer for the contribution of `hop`.
  BufferId part(int hop) { return buffer("of hop " + std::to_string(hop)); }
  /// Adds the contribution of `hop`, which `next` follows.
  virtual void add(int hop, int next, BufferId part) = 0;
  virtual void define() = 0;

 protected:
  BufferId buffer(const std::string& what) { return ring_.like_result(name() + " " + what, result_); }
  BufferId sum(BufferId so_far, BufferId part, const std::vector<BufferId>& waits) {
    const BufferId sum = buffer("so far");
    ring_.add(result_, {so_far, part}, sum, waits);
    return sum;
  }
  [[nodiscard]] std::string name() const { return "result " + std::to_string(result_); }
  [[nodiscard]] RingLowering& ring() { return ring_; }
  [[nodiscard]] int result() const { return result_; }

 private:
  RingLowering& ring_;
  int result_;
};

/// A result that stays at its rank, such as the gradient of queries.
class StayingResult final : public SummedResult {
 public:
  using SummedResult::SummedResult;

  void add(int /*hop*/, int /*next*/, BufferId part) override { sum_ = sum_ ? sum(*sum_, part, {}) : part; }
  void define() override { ring().define(result(), *sum_); }

 private:
  std::optional<BufferId> sum_;
};

/// A result along the keys, such as the gradient of K. It moves around the ring with them and accumulates the
/// contributions of all ranks that see them. The owner adds its own contribution last, so it needs one message less
/// than there are hops.
class TravellingResult final : public SummedResult {
 public:
  using SummedResult::SummedResult;

  /// The sum then follows its keys to hop `next`, or home.
  void add(int hop, int next, BufferId part) override {
    if (hop == 0) {
      own_ = part;
      return;
    }
    const BufferId so_far = arrived_ ? sum(*arrived_, part, sent_) : part;
    const std::string what = "after hop " + std::to_string(hop);
    arrived_ = buffer(what);
    ring().pass_on(name() + " " + what, next - hop, so_far, *arrived_, {});
    sent_ = {so_far};
  }

  void define() override { ring().define(result(), arrived_ ? sum(*arrived_, own_, sent_) : own_); }

 private:
  BufferId own_ = -1;
  std::optional<BufferId> arrived_;
  std::vector<BufferId> sent_;
};

/// Calls body(hop, next hop, waits) for every hop, while the keys of the next hop are in flight. After the last hop,
/// the next one is the number of ranks: the keys' owner.
template <class Body>
void travel(RingLowering& ring, TravellingKeys& keys, const Body& body) {
  const std::vector<int>& hops = ring.hops();
  for (std::size_t i = 0; i < hops.size(); ++i) {
    const bool is_last = i + 1 == hops.size();
    const int next = is_last ? ring.ranks() : hops[i + 1];
    if (!is_last) keys.start(hops[i], next);
    body(hops[i], next, is_last ? keys.sent() : std::vector<BufferId>{});
    if (!is_last) keys.advance();
  }
}

/// Merges a mean and a logarithm, as those of attention.
void lower_by_log_sum_exp(RingLowering& ring) {
  const int mean = ring.mixing().mean;
  const int logarithm = ring.mixing().logarithm;
  /// The results in the order of the op.
  const auto make = [&](const std::string& of) -> std::vector<BufferId> {
    std::vector<BufferId> results(2);
    for (const int result : {mean, logarithm}) {
      results[static_cast<std::size_t>(result)] = ring.like_result("result " + std::to_string(result) + of, result);
    }
    return results;
  };
  std::vector<BufferId> so_far;
  TravellingKeys keys(ring, ring.operands());
  travel(ring, keys, [&](int hop, int /*next*/, const std::vector<BufferId>& waits) {
    const std::vector<BufferId> part = make(" of hop " + std::to_string(hop));
    ring.compute(hop, keys.operands(), part, waits);
    if (so_far.empty()) {
      so_far = part;
      return;
    }
    const std::vector<BufferId> merged = make(" so far");
    ring.merge(so_far, part, merged);
    so_far = merged;
  });
  for (const int result : {mean, logarithm}) ring.define(result, so_far[static_cast<std::size_t>(result)]);
}

/// Adds all results, such as gradients.
void lower_by_sum(RingLowering& ring) {
  std::vector<std::unique_ptr<SummedResult>> results;
  for (int result = 0; result < ring.result_count(); ++result) {
    if (ring.is_along_keys(result)) {
      results.push_back(std::make_unique<TravellingResult>(ring, result));
    } else {
      results.push_back(std::make_unique<StayingResult>(ring, result));
    }
  }
  TravellingKeys keys(ring, ring.operands());
  travel(ring, keys, [&](int hop, int next, const std::vector<BufferId>& waits) {
    std::vector<BufferId> parts;
    for (const auto& result : results) parts.push_back(result->part(hop));
    ring.compute(hop, keys.operands(), parts, waits);
    // Messages first, so that they travel beside the sums.
    for (const bool travels : {true, false}) {
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (ring.is_along_keys(static_cast<int>(i)) == travels) results[i]->add(hop, next, parts[i]);
      }
    }
  });
  for (const auto& result : results) result->define();
}

}  // namespace

void lower_ring_attention(LoweringContext& context, const Axis& axis) {
  RingLowering ring(context, axis);
  if (ring.mixing().merge == PositionMixing::Merge::log_sum_exp) {
    lower_by_log_sum_exp(ring);
  } else {
    lower_by_sum(ring);
  }
}

}  // namespace context
