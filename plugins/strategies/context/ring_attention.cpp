#include "ring_attention.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "ring_lowering.hpp"

namespace context {

using namespace strata;

namespace {

constexpr int kQuery = 0;
constexpr int kKey = 1;
constexpr int kValue = 2;

/// K, V and the documents of their tokens on their way around the ring. Each is a message of its own, because packing
/// them into one would copy them.
class TravellingKeys {
 public:
  /// `operands`: the operands of hop 0.
  TravellingKeys(RingLowering& ring, std::vector<BufferId> operands) : ring_(ring), operands_(std::move(operands)) {
    add("key", kKey);
    add("value", kValue);
    if (const auto documents = ring.key_documents()) add("documents", *documents);
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
      const std::string name = each.name + " for hop " + std::to_string(next);
      each.next = ring_.like_operand(name, each.operand, ring_.operand_type(each.operand));
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
    std::string name;
    int operand = 0;
    BufferId next = -1;
  };

  void add(const std::string& name, int operand) { travellers_.push_back({.name = name, .operand = operand}); }
  BufferId& current(const Traveller& each) { return operands_.at(static_cast<std::size_t>(each.operand)); }

  RingLowering& ring_;
  std::vector<BufferId> operands_;
  std::vector<Traveller> travellers_;
  std::vector<BufferId> sent_;
};

/// The gradient of K or V, which moves around the ring with its keys and accumulates the contributions of all ranks
/// that see them. The owner adds its own contribution last, so the gradient needs one message less than there are hops.
class TravellingGradient {
 public:
  TravellingGradient(RingLowering& ring, int result, std::string name)
      : ring_(ring),
        result_(result),
        type_(RingLowering::accumulated(ring.result_type(result))),
        name_(std::move(name)) {}

  /// Adds a buffer for the contribution of `hop`.
  BufferId part(int hop) { return ring_.like_result(name_ + " of hop " + std::to_string(hop), result_, type_); }

  /// Adds the contribution of `hop` to the moving gradient, which then follows its keys to hop `next`, or home.
  void add(int hop, int next, BufferId part) {
    if (hop == 0) {
      own_ = part;
      return;
    }
    const BufferId sum = arrived_ ? add_to_arrived(part) : part;
    const std::string name = name_ + " after hop " + std::to_string(hop);
    arrived_ = ring_.like_result(name, result_, type_);
    ring_.pass_on(name, next - hop, sum, *arrived_, {});
    sent_ = {sum};
  }

  void define() { ring_.define(result_, arrived_ ? add_to_arrived(own_) : own_); }

 private:
  BufferId add_to_arrived(BufferId part) {
    const BufferId sum = ring_.like_result(name_ + " so far", result_, type_);
    ring_.add(result_, {*arrived_, part}, sum, sent_);
    return sum;
  }

  RingLowering& ring_;
  int result_;
  TensorType type_;
  std::string name_;
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

void lower_forward(RingLowering& ring) {
  const TensorType type = RingLowering::accumulated(ring.result_type(0));
  struct Result {
    BufferId output;
    BufferId log_sum;
  };
  const auto make = [&](const std::string& of) -> Result {
    return {ring.like_result("output" + of, 0, type), ring.like_result("log-sum-exp" + of, 1, ring.result_type(1))};
  };
  std::optional<Result> so_far;
  TravellingKeys keys(ring, ring.operands());
  travel(ring, keys, [&](int hop, int /*next*/, const std::vector<BufferId>& waits) {
    const Result part = make(" of hop " + std::to_string(hop));
    ring.compute(hop, keys.operands(), {part.output, part.log_sum}, waits);
    if (!so_far) {
      so_far = part;
      return;
    }
    const Result merged = make(" so far");
    ring.merge({so_far->output, so_far->log_sum, part.output, part.log_sum}, {merged.output, merged.log_sum});
    so_far = merged;
  });
  ring.define(0, so_far->output);
  ring.define(1, so_far->log_sum);
}

void lower_gradient(RingLowering& ring) {
  const TensorType type = RingLowering::accumulated(ring.result_type(kQuery));
  std::optional<BufferId> d_query;
  TravellingKeys keys(ring, ring.operands());
  TravellingGradient d_key(ring, kKey, "key gradient");
  TravellingGradient d_value(ring, kValue, "value gradient");
  travel(ring, keys, [&](int hop, int next, const std::vector<BufferId>& waits) {
    const BufferId part = ring.like_result("query gradient of hop " + std::to_string(hop), kQuery, type);
    const BufferId key_part = d_key.part(hop);
    const BufferId value_part = d_value.part(hop);
    ring.compute(hop, keys.operands(), {part, key_part, value_part}, waits);
    d_key.add(hop, next, key_part);
    d_value.add(hop, next, value_part);
    if (!d_query) {
      d_query = part;
      return;
    }
    const BufferId sum = ring.like_result("query gradient so far", kQuery, type);
    ring.add(kQuery, {*d_query, part}, sum, {});
    d_query = sum;
  });
  ring.define(kQuery, *d_query);
  d_key.define();
  d_value.define();
}

}  // namespace

bool travels(const IterationLayout& iteration, const Axis& axis) {
  const auto queries = iteration.find("seq");
  return queries != iteration.end() &&
         std::find(queries->second.begin(), queries->second.end(), axis) != queries->second.end();
}

void lower_ring_attention(LoweringContext& context, const Axis& axis) {
  RingLowering ring(context, axis);
  if (context.node().op == "attention") {
    lower_forward(ring);
  } else {
    lower_gradient(ring);
  }
}

}  // namespace context
