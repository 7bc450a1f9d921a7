#include "ring_attention.hpp"

#include <algorithm>
#include <optional>

#include "ring_lowering.hpp"

namespace context {

using namespace strata;

namespace {

constexpr int kQuery = 0;
constexpr int kKey = 1;
constexpr int kValue = 2;

/// K and V on their way around the ring. They are two messages, because packing them into one would copy them.
class TravellingKeys {
 public:
  explicit TravellingKeys(RingLowering& ring) : ring_(ring), key_(ring.operand(kKey)), value_(ring.operand(kValue)) {}

  [[nodiscard]] BufferId key() const { return key_; }
  [[nodiscard]] BufferId value() const { return value_; }
  /// The buffers sent last. They may be reused when that message is complete.
  [[nodiscard]] const std::vector<BufferId>& sent() const { return sent_; }

  /// Starts the exchange for `hop` after the previous exchange is complete, so two pairs of buffers suffice.
  void start(int hop) {
    const std::string name = " for hop " + std::to_string(hop);
    next_key_ = ring_.like_operand("key" + name, kKey, ring_.operand_type(kKey));
    next_value_ = ring_.like_operand("value" + name, kValue, ring_.operand_type(kValue));
    ring_.pass_on("key" + name, key_, next_key_, sent_);
    ring_.pass_on("value" + name, value_, next_value_, {});
    sent_ = {key_, value_};
  }

  /// Makes the received keys the current ones.
  void advance() {
    key_ = next_key_;
    value_ = next_value_;
  }

 private:
  RingLowering& ring_;
  BufferId key_;
  BufferId value_;
  BufferId next_key_ = -1;
  BufferId next_value_ = -1;
  std::vector<BufferId> sent_;
};

/// The gradient of K or V, which moves around the ring with its keys and accumulates the contributions of all ranks.
/// The owner adds its own contribution last, so the gradient needs one message less than there are ranks.
class TravellingGradient {
 public:
  TravellingGradient(RingLowering& ring, int result, std::string name)
      : ring_(ring),
        result_(result),
        type_(RingLowering::accumulated(ring.result_type(result))),
        name_(std::move(name)) {}

  /// Adds a buffer for the contribution of `hop`.
  BufferId part(int hop) { return ring_.like_result(name_ + " of hop " + std::to_string(hop), result_, type_); }

  /// Adds the contribution of `hop` to the moving gradient.
  void add(int hop, BufferId part) {
    if (hop == 0) {
      own_ = part;
      return;
    }
    const BufferId sum = hop == 1 ? part : add_to_arrived(part);
    const std::string name = name_ + " after hop " + std::to_string(hop);
    arrived_ = ring_.like_result(name, result_, type_);
    ring_.pass_on(name, sum, arrived_, {});
    sent_ = {sum};
  }

  void define() { ring_.define(result_, add_to_arrived(own_)); }

 private:
  BufferId add_to_arrived(BufferId part) {
    const BufferId sum = ring_.like_result(name_ + " so far", result_, type_);
    ring_.add(result_, {arrived_, part}, sum, sent_);
    return sum;
  }

  RingLowering& ring_;
  int result_;
  TensorType type_;
  std::string name_;
  BufferId own_ = -1;
  BufferId arrived_ = -1;
  std::vector<BufferId> sent_;
};

/// Calls hop(i) for every hop, while the keys of the next hop are in flight.
template <class Hop>
void travel(RingLowering& ring, TravellingKeys& keys, const Hop& hop) {
  for (int i = 0; i < ring.hops(); ++i) {
    const bool is_last = i + 1 == ring.hops();
    if (!is_last) keys.start(i + 1);
    hop(i, is_last ? keys.sent() : std::vector<BufferId>{});
    if (!is_last) keys.advance();
  }
}

void lower_forward(RingLowering& ring) {
  const BufferId query = ring.operand(kQuery);
  const TensorType type = RingLowering::accumulated(ring.result_type(0));
  struct Result {
    BufferId output;
    BufferId log_sum;
  };
  const auto make = [&](const std::string& of) -> Result {
    return {ring.like_result("output" + of, 0, type), ring.like_result("log-sum-exp" + of, 1, ring.result_type(1))};
  };
  std::optional<Result> so_far;
  TravellingKeys keys(ring);
  travel(ring, keys, [&](int hop, const std::vector<BufferId>& waits) {
    const Result part = make(" of hop " + std::to_string(hop));
    ring.compute(hop, {query, keys.key(), keys.value()}, {part.output, part.log_sum}, waits);
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
  const BufferId query = ring.operand(kQuery);
  const BufferId output = ring.operand(3);
  const BufferId log_sum = ring.operand(4);
  const BufferId d_output = ring.operand(5);
  const TensorType type = RingLowering::accumulated(ring.result_type(kQuery));
  std::optional<BufferId> d_query;
  TravellingKeys keys(ring);
  TravellingGradient d_key(ring, kKey, "key gradient");
  TravellingGradient d_value(ring, kValue, "value gradient");
  travel(ring, keys, [&](int hop, const std::vector<BufferId>& waits) {
    const BufferId part = ring.like_result("query gradient of hop " + std::to_string(hop), kQuery, type);
    const BufferId key_part = d_key.part(hop);
    const BufferId value_part = d_value.part(hop);
    ring.compute(hop, {query, keys.key(), keys.value(), output, log_sum, d_output}, {part, key_part, value_part},
                 waits);
    d_key.add(hop, key_part);
    d_value.add(hop, value_part);
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
