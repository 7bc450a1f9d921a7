#include "drawn_graph.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "strata/random.hpp"

namespace drawn {
namespace {

using namespace strata;

constexpr double kDeviation = 0.1;
constexpr double kEpsilon = 1e-5;

/// The values of one stream, in the order of their blocks.
struct Stream {
  /// The dimension along which its elements lie: "seq" or "letter".
  Dim length;
  /// The dimension of its alphabet.
  Dim alphabet;
  std::vector<Value> values;

  [[nodiscard]] Dims dims() const { return {"batch", length, "embed"}; }
};

class GraphDraw {
 public:
  GraphDraw(GraphBuilder& builder, const DrawnSettings& settings)
      : b_(builder),
        settings_(settings),
        key_(random::stream_key(static_cast<std::uint64_t>(settings.seed), "graph", 0)) {}

  void draw() {
    b_.begin_block(0);
    embed_streams();
    for (std::int64_t block = 1; block <= settings_.blocks; ++block) {
      b_.begin_block(static_cast<int>(block));
      prefix_ = "h." + std::to_string(block) + ".";
      draw_block();
    }
    b_.begin_block(static_cast<int>(settings_.blocks) + 1);
    prefix_ = "head.";
    add_head();
  }

 private:
  void embed_streams() {
    for (Stream* stream : {&target_, &source_}) {
      const Value table = matrix(stream->alphabet + ".table", {stream->alphabet, "embed"});
      const std::string name = stream == &target_ ? "tokens" : "letters";
      const Value ids = b_.input(name, {"batch", stream->length});
      stream->values.push_back(b_.embedding(table, ids, name + ".embedded"));
    }
    // Of the two, only the first is read, and by some graphs only.
    const Value weights = b_.input("weights", {"batch", "seq"}, b_.float_type());
    if (one_in(2)) {
      const Value direction = matrix("direction", {"embed"});
      const Value more = b_.linear(weights, direction, target_.dims(), "weights.spread");
      target_.values.push_back(b_.add(target_.values.back(), more, "weights.added"));
    }
    static_cast<void>(b_.input("unused", {"batch", "letter"}));
  }

  void draw_block() {
    if (one_in(8)) return;
    const bool on_source = one_in(3);
    Stream& stream = on_source ? source_ : target_;
    for (std::size_t part = 1 + below(2); part > 0; --part) {
      part_ = prefix_ + std::to_string(part) + ".";
      stream.values.push_back(extend(stream, on_source ? target_ : source_));
    }
    part_ = prefix_;
    if (one_in(6)) add_dead_values(stream);
    if (one_in(5)) add_loss(stream, part_ + "loss", false);
  }

  Value extend(const Stream& stream, const Stream& other) {
    const Value x = recent(stream);
    switch (below(6)) {
      case 0:
        return b_.add(x, any(stream), part_ + "skip");
      case 1:
        return b_.add(x, cross(stream, other), part_ + "crossed");
      case 2:
        return b_.add(x, resample(stream, other), part_ + "resampled");
      case 3:
        if (&stream == &target_) return b_.add(x, attend(x), part_ + "attended");
        [[fallthrough]];
      default:
        return b_.add(x, feed_forward(stream, x), part_ + "fed");
    }
  }

  /// Parameters of one block in three are those of all such blocks.
  Value feed_forward(const Stream& stream, Value x) {
    const std::string owner = one_in(3) ? "shared." : part_;
    const Value up = matrix(owner + "up.weight", {"embed", "wide"});
    Value hidden = b_.linear(normalized(x), up, {"batch", stream.length, "wide"}, part_ + "up");
    const Dims bias{"wide"};
    hidden = b_.add(hidden,
                    one_in(4) ? b_.frozen_parameter(part_ + "frozen.bias", bias, Initialization::normal(kDeviation))
                              : b_.parameter(owner + "up.bias", bias, Initialization::constant(0), false),
                    part_ + "up.shifted");
    hidden = one_in(2) ? b_.op(kFolded, {hidden}, part_ + "folded")[0] : b_.activation(hidden, "silu", part_ + "silu");
    const Value down = matrix(owner + "down.weight", {"wide", "embed"});
    return b_.dropout(b_.linear(hidden, down, stream.dims(), part_ + "down"), settings_.dropout, part_ + "dropout");
  }

  /// Every element of the stream reads all elements of any value of the other stream, by the product of both.
  Value cross(const Stream& stream, const Stream& other) {
    const Value read = any(other);
    const Value scores =
        b_.linear(normalized(recent(stream)), read, {"batch", stream.length, other.length}, part_ + "scores");
    const Value bounded = b_.op(kFolded, {scores}, part_ + "bounded")[0];
    return b_.linear(bounded, read, stream.dims(), part_ + "read");
  }

  /// The other stream in the length of this one, by a matrix over both lengths.
  Value resample(const Stream& stream, const Stream& other) {
    const std::string owner = one_in(2) ? "shared." : part_;
    const Value map = matrix(owner + other.length + ".to." + stream.length, {other.length, stream.length});
    return b_.linear(any(other), map, stream.dims(), part_ + "resample");
  }

  Value attend(Value x) {
    const Value normal = normalized(x);
    const auto project = [&](const std::string& name) {
      const Value weight = matrix(part_ + name + ".weight", {"embed", "heads", "head_dim"});
      return b_.linear(normal, weight, {"batch", "seq", "heads", "head_dim"}, part_ + name);
    };
    const Value y = b_.attention(project("q"), project("k"), project("v"), {.causal = true}, part_ + "attention");
    const Value out = matrix(part_ + "out.weight", {"heads", "head_dim", "embed"});
    return b_.linear(y, out, target_.dims(), part_ + "out");
  }

  void add_dead_values(const Stream& stream) {
    const Value weight = matrix(part_ + "dead.weight", {"embed", "wide"});
    static_cast<void>(b_.linear(any(stream), weight, {"batch", stream.length, "wide"}, part_ + "dead"));
  }

  void add_loss(const Stream& stream, const std::string& name, bool main) {
    const Value table = one_in(2) ? matrix(stream.alphabet + ".table", {stream.alphabet, "embed"})
                                  : matrix(stream.alphabet + ".head", {stream.alphabet, "embed"});
    const Value x = main ? normalized(b_.add(stream.values.back(), any(stream), name + ".sum")) : recent(stream);
    const Value logits = b_.linear(x, table, {"batch", stream.length, stream.alphabet}, name + ".logits");
    const std::string targets = stream.length == "seq" ? "targets" : "letter_targets";
    b_.cross_entropy_loss(logits, b_.input(targets, {"batch", stream.length}), name, main);
  }

  void add_head() {
    part_ = prefix_;
    // Some graphs have no other reader of the source.
    const Value both = b_.add(target_.values.back(), resample(target_, source_), "head.both");
    target_.values.push_back(both);
    add_loss(target_, "loss", true);
    if (one_in(3)) add_loss(source_, "source_loss", false);
  }

  Value normalized(Value x) {
    const std::string name = part_ + "norm." + std::to_string(norms_++);
    const Value gain = b_.parameter(name + ".weight", {"embed"}, Initialization::constant(1), false);
    const Value bias = b_.parameter(name + ".bias", {"embed"}, Initialization::constant(0), false);
    return b_.layer_norm(x, gain, bias, kEpsilon, name);
  }

  Value matrix(const std::string& name, const Dims& dims) {
    return b_.parameter(name, dims, Initialization::normal(kDeviation), true);
  }

  /// The last value of a stream, or one of the two before it.
  Value recent(const Stream& stream) {
    const std::size_t back = one_in(2) ? 0 : below(std::min<std::size_t>(3, stream.values.size()));
    return stream.values[stream.values.size() - 1 - back];
  }
  Value any(const Stream& stream) { return stream.values[below(stream.values.size())]; }
  bool one_in(std::size_t count) { return below(count) == 0; }
  /// A number of at least 0 and below `bound`.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random::below(key_, draws_++, bound)); }

  GraphBuilder& b_;
  const DrawnSettings& settings_;
  std::uint64_t key_;
  std::uint64_t draws_ = 0;
  Stream target_{"seq", "vocab", {}};
  Stream source_{"letter", "alphabet", {}};
  std::string prefix_;
  std::string part_;
  int norms_ = 0;
};

}  // namespace

void append_drawn_graph(GraphBuilder& builder, const DrawnSettings& settings) { GraphDraw(builder, settings).draw(); }

}  // namespace drawn
