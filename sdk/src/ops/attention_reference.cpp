#include <algorithm>
#include <limits>
#include <optional>

#include "ops/op_base.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/random.hpp"

namespace strata::ops {
namespace {

/// Sizes of q, o [batch, queries, heads, width] and k, v [batch, keys, kv_heads, width]. Several head dims count as
/// one.
struct AttentionShape {
  explicit AttentionShape(const OpInstance& op)
      : batch(op.operands[0].shape[0]),
        queries(op.operands[0].shape[1]),
        keys(op.operands[1].shape[1]),
        width(columns(op.operands[0])),
        heads(elements(op.operands[0]) / (batch * queries * width)),
        kv_heads(elements(op.operands[1]) / (batch * keys * width)) {}

  [[nodiscard]] std::int64_t query(std::int64_t b, std::int64_t h, std::int64_t q) const {
    return ((b * queries + q) * heads + h) * width;
  }
  /// Offset of the key or value row `k` for query head `h`.
  [[nodiscard]] std::int64_t key(std::int64_t b, std::int64_t h, std::int64_t k) const {
    return ((b * keys + k) * kv_heads + h / (heads / kv_heads)) * width;
  }
  [[nodiscard]] std::int64_t row(std::int64_t b, std::int64_t h, std::int64_t q) const {
    return (b * heads + h) * queries + q;
  }

  std::int64_t batch, queries, keys, width, heads, kv_heads;
};

/// The masks (causal, window, documents) and dropout of the probabilities, by global coordinates.
class Mask {
 public:
  explicit Mask(const OpInstance& op)
      : causal_(op.attributes.flag("causal")),
        window_(op.attributes.has("window") ? op.attributes.integer("window") : 0),
        first_documents_(op.operands.back().dtype == DType::i32 ? std::optional(op.operands.size() - 2) : std::nullopt),
        dropout_(op.attributes.number("dropout")),
        batch_dim_(op.operands[0].dims.front()),
        queries_(global_indices(index_map(op, op.operands[0].dims[1]))),
        keys_(global_indices(index_map(op, op.operands[1].dims[1]))),
        query_count_(index_map(op, op.operands[0].dims[1]).global_size),
        key_count_(index_map(op, op.operands[1].dims[1]).global_size) {
    const Dims& dims = op.operands[0].dims;
    const IndexMap heads = index_map(op, Dims(dims.begin() + 2, dims.end() - 1));
    heads_ = global_indices(heads);
    head_count_ = heads.global_size;
  }

  /// Masks and dropout of one launch.
  class OfLaunch {
   public:
    OfLaunch(const Mask& mask, const Launch& launch)
        : mask_(mask), batch_(launch.global_index(mask.batch_dim_)), key_(launch.stream_key()) {
      if (!mask.first_documents_) return;
      query_documents_ = launch.values(*mask.first_documents_);
      key_documents_ = launch.values(*mask.first_documents_ + 1);
    }

    [[nodiscard]] bool visible(std::int64_t b, std::int64_t q, std::int64_t k) const {
      const std::int64_t distance = at(mask_.queries_, q) - at(mask_.keys_, k);
      if (mask_.causal_ && distance < 0) return false;
      if (mask_.window_ > 0 && distance >= mask_.window_) return false;
      if (!query_documents_) return true;
      const auto row = [b](const Indices& indices) { return b * static_cast<std::int64_t>(indices.size()); };
      return (*query_documents_)[row(mask_.queries_) + q] == (*key_documents_)[row(mask_.keys_) + k];
    }

    /// Factor of one probability: 0, or 1 / (1 - p).
    [[nodiscard]] double keep(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
      if (mask_.dropout_ == 0.0) return 1.0;
      std::int64_t index = batch_(b);
      index = index * mask_.head_count_ + at(mask_.heads_, h);
      index = index * mask_.query_count_ + at(mask_.queries_, q);
      index = index * mask_.key_count_ + at(mask_.keys_, k);
      const std::uint32_t word = random::word(key_, static_cast<std::uint64_t>(index));
      return word >= random::drop_threshold(mask_.dropout_) ? 1.0 / (1.0 - mask_.dropout_) : 0.0;
    }

   private:
    const Mask& mask_;
    GlobalIndex batch_;
    std::uint64_t key_;
    std::optional<Values> query_documents_, key_documents_;
  };

  [[nodiscard]] OfLaunch of(const Launch& launch) const { return {*this, launch}; }

 private:
  using Indices = std::vector<std::int64_t>;

  static std::int64_t at(const Indices& indices, std::int64_t local) {
    return indices[static_cast<std::size_t>(local)];
  }

  static Indices global_indices(const IndexMap& map) {
    Indices indices;
    for (std::int64_t local = 0; local < map.local_size(); ++local) indices.push_back(map.global_index(local));
    return indices;
  }

  bool causal_;
  /// Tokens that a query sees, itself included. 0: any number.
  std::int64_t window_;
  /// The operand that holds the documents of queries. Those of keys follow.
  std::optional<std::size_t> first_documents_;
  double dropout_;
  Dim batch_dim_;
  /// Global indices of local queries, keys and heads.
  Indices queries_, keys_, heads_;
  std::int64_t query_count_, key_count_;
  std::int64_t head_count_ = 1;
};

/// The bias of scores, by the distance of a key from its query in global positions.
class Bias {
 public:
  /// `operand`: the position of the bias among the operands, if there is one.
  Bias(const OpInstance& op, std::size_t operand)
      : queries_(index_map(op, op.operands[0].dims[1])), keys_(index_map(op, op.operands[1].dims[1])) {
    if (op.operands.size() <= operand || op.operands[operand].dtype == DType::i32) return;
    operand_ = operand;
    distances_ = columns(op.operands[operand]);
  }

  [[nodiscard]] std::optional<Values> of(const Launch& launch) const {
    return operand_ ? std::optional(launch.values(*operand_)) : std::nullopt;
  }
  /// Elements of a head. 0: no bias.
  [[nodiscard]] std::int64_t distances() const { return distances_; }
  /// The element of a head for a query and a key.
  [[nodiscard]] std::int64_t element(std::int64_t q, std::int64_t k) const {
    return keys_.global_index(k) - queries_.global_index(q) + queries_.global_size - 1;
  }

 private:
  IndexMap queries_, keys_;
  std::optional<std::size_t> operand_;
  std::int64_t distances_ = 0;
};

double dot(const Values& x, std::int64_t x_first, const Values& y, std::int64_t y_first, std::int64_t width) {
  double sum = 0.0;
  for (std::int64_t j = 0; j < width; ++j) sum += x[x_first + j] * y[y_first + j];
  return sum;
}

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// Workspace for one row of scores.
std::int64_t attention_workspace(const OpInstance& op) {
  return op.operands[1].shape[1] * static_cast<std::int64_t>(sizeof(double));
}

Work prepare_attention(const OpInstance& op) {
  const AttentionShape shape(op);
  const Mask masks(op);
  const Bias bias(op, 3);
  return [shape, masks, bias, of_product = attention_scores(op)](const Launch& launch) {
    const Mask::OfLaunch mask = masks.of(launch);
    const std::optional<Values> biases = bias.of(launch);
    const Values query = launch.values(0);
    const Values key = launch.values(1);
    const Values value = launch.values(2);
    const Writer output = launch.result(0);
    double* scores = launch.workspace();

    const auto attend = [&](std::int64_t b, std::int64_t h, std::int64_t q) {
      double largest = kMinusInfinity;
      for (std::int64_t k = 0; k < shape.keys; ++k) {
        scores[k] = !mask.visible(b, q, k)
                        ? kMinusInfinity
                        : of_product.of(dot(query, shape.query(b, h, q), key, shape.key(b, h, k), shape.width)) +
                              (biases ? (*biases)[h * bias.distances() + bias.element(q, k)] : 0.0);
        largest = std::max(largest, scores[k]);
      }
      const bool sees_nothing = largest == kMinusInfinity;
      double sum = 0.0;
      for (std::int64_t k = 0; k < shape.keys; ++k) sum += sees_nothing ? 0.0 : std::exp(scores[k] - largest);
      const double log_sum = sees_nothing ? kMinusInfinity : largest + std::log(sum);
      // Turn the scores into probabilities after dropout.
      for (std::int64_t k = 0; k < shape.keys; ++k) {
        scores[k] = scores[k] == kMinusInfinity ? 0.0 : std::exp(scores[k] - log_sum) * mask.keep(b, h, q, k);
      }
      for (std::int64_t j = 0; j < shape.width; ++j) {
        double result = 0.0;
        for (std::int64_t k = 0; k < shape.keys; ++k) result += scores[k] * value[shape.key(b, h, k) + j];
        output.set(shape.query(b, h, q) + j, result);
      }
      launch.result(1).set(shape.row(b, h, q), log_sum);
    };

    for (std::int64_t b = 0; b < shape.batch; ++b) {
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        for (std::int64_t q = 0; q < shape.queries; ++q) attend(b, h, q);
      }
    }
  };
}

/// Workspace for one row each of dq, dk and dv, and of dbias.
std::int64_t attention_gradient_workspace(const OpInstance& op) {
  return (3 * columns(op.operands[0]) + Bias(op, 6).distances()) * static_cast<std::int64_t>(sizeof(double));
}

/// Attention gradient. With probabilities p = exp(score - lse), dropout factors m, dp = m · (do · v) and D = do · o
/// (the sum of p · dp over all keys, including those of other ranks): dscore = p · (dp - D), dv = Σ p · m · do.
/// `dscore` is by scale · q·k.
Work prepare_attention_gradient(const OpInstance& op) {
  const AttentionShape shape(op);
  const Mask masks(op);
  const Bias bias(op, 6);
  return [shape, masks, bias, of_product = attention_scores(op)](const Launch& launch) {
    const Mask::OfLaunch mask = masks.of(launch);
    const std::optional<Values> biases = bias.of(launch);
    const Values query = launch.values(0);
    const Values key = launch.values(1);
    const Values value = launch.values(2);
    const Values output = launch.values(3);
    const Values lse = launch.values(4);
    const Values doutput = launch.values(5);
    const double scale = of_product.scale;

    struct Pair {
      double dropped_probability = 0.0;
      double dscore = 0.0;
    };
    const auto pair = [&](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) -> Pair {
      const double log_sum = lse[shape.row(b, h, q)];
      if (!mask.visible(b, q, k) || log_sum == kMinusInfinity) return {};
      const std::int64_t query_row = shape.query(b, h, q);
      const std::int64_t key_row = shape.key(b, h, k);
      const double score = of_product.of(dot(query, query_row, key, key_row, shape.width));
      const double added = biases ? (*biases)[h * bias.distances() + bias.element(q, k)] : 0.0;
      const double p = std::exp(score + added - log_sum);
      const double m = mask.keep(b, h, q, k);
      const double dp = m * dot(doutput, query_row, value, key_row, shape.width);
      const double d = dot(doutput, query_row, output, query_row, shape.width);
      return {p * m, p * (dp - d) * of_product.slope(score)};
    };

    double* dq = launch.workspace();
    double* dk = dq + shape.width;
    double* dv = dk + shape.width;
    const auto write_row = [&](std::size_t result, std::int64_t first, const double* row) {
      for (std::int64_t j = 0; j < shape.width; ++j) launch.result(result).set(first + j, row[j]);
    };

    const auto query_gradient = [&](std::int64_t b, std::int64_t h, std::int64_t q) {
      std::fill_n(dq, shape.width, 0.0);
      for (std::int64_t k = 0; k < shape.keys; ++k) {
        const double dscore = pair(b, h, q, k).dscore;
        for (std::int64_t j = 0; j < shape.width; ++j) dq[j] += scale * dscore * key[shape.key(b, h, k) + j];
      }
      write_row(0, shape.query(b, h, q), dq);
    };

    const std::int64_t group = shape.heads / shape.kv_heads;
    const auto key_and_value_gradient = [&](std::int64_t b, std::int64_t kv_head, std::int64_t k) {
      std::fill_n(dk, 2 * shape.width, 0.0);
      for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        for (std::int64_t q = 0; q < shape.queries; ++q) {
          const Pair gradients = pair(b, h, q, k);
          const std::int64_t query_row = shape.query(b, h, q);
          for (std::int64_t j = 0; j < shape.width; ++j) {
            dk[j] += scale * gradients.dscore * query[query_row + j];
            dv[j] += gradients.dropped_probability * doutput[query_row + j];
          }
        }
      }
      write_row(1, shape.key(b, kv_head * group, k), dk);
      write_row(2, shape.key(b, kv_head * group, k), dv);
    };

    const auto bias_gradient = [&](std::int64_t h) {
      double* dbias = dv + shape.width;
      std::fill_n(dbias, bias.distances(), 0.0);
      for (std::int64_t b = 0; b < shape.batch; ++b) {
        for (std::int64_t q = 0; q < shape.queries; ++q) {
          for (std::int64_t k = 0; k < shape.keys; ++k) dbias[bias.element(q, k)] += pair(b, h, q, k).dscore;
        }
      }
      for (std::int64_t d = 0; d < bias.distances(); ++d) launch.result(3).set(h * bias.distances() + d, dbias[d]);
    };

    for (std::int64_t h = 0; biases && h < shape.heads; ++h) bias_gradient(h);
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        for (std::int64_t q = 0; q < shape.queries; ++q) query_gradient(b, h, q);
      }
      for (std::int64_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
        for (std::int64_t k = 0; k < shape.keys; ++k) key_and_value_gradient(b, kv_head, k);
      }
    }
  };
}

/// Shapes: o [batch, queries, heads…, width], log-sum-exp [batch, heads…, queries].
Work prepare_attention_merge(const OpInstance& op) {
  const std::int64_t batch = op.operands[0].shape[0];
  const std::int64_t queries = op.operands[0].shape[1];
  const std::int64_t width = columns(op.operands[0]);
  const std::int64_t heads = elements(op.operands[1]) / (batch * queries);
  return [=](const Launch& launch) {
    const Reader outputs[] = {launch.operand(0), launch.operand(2)};
    const Reader log_sums[] = {launch.operand(1), launch.operand(3)};

    const auto merge = [&](std::int64_t output, std::int64_t row) {
      const double largest = std::max(log_sums[0][row], log_sums[1][row]);
      const bool sees_nothing = largest == -std::numeric_limits<double>::infinity();
      const double weights[] = {sees_nothing ? 0.0 : std::exp(log_sums[0][row] - largest),
                                sees_nothing ? 0.0 : std::exp(log_sums[1][row] - largest)};
      const double sum = weights[0] + weights[1];
      for (std::int64_t j = output; j < output + width; ++j) {
        launch.result(0).set(j, sees_nothing ? 0.0 : (weights[0] * outputs[0][j] + weights[1] * outputs[1][j]) / sum);
      }
      launch.result(1).set(row, sees_nothing ? largest : largest + std::log(sum));
    };

    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t q = 0; q < queries; ++q) {
        for (std::int64_t h = 0; h < heads; ++h) {
          merge(((b * queries + q) * heads + h) * width, (b * heads + h) * queries + q);
        }
      }
    }
  };
}

}  // namespace

void register_attention_reference(Registration& registration) {
  // With and without a bias, and the documents of queries and keys.
  for (const std::string bias : {"", "r"}) {
    for (const std::string documents : {"", "ii"}) {
      registration.add(reference::kernel(
          {"attention", "rrr" + bias + documents, "rr", prepare_attention, false, attention_workspace}));
      registration.add(reference::kernel({"attention_gradient", "rrrrrr" + bias + documents, "rrr" + bias,
                                          prepare_attention_gradient, true, attention_gradient_workspace}));
    }
  }
  registration.add(reference::kernel({"attention_merge", "rrrr", "rr", prepare_attention_merge, false}));
}

}  // namespace strata::ops
