#include "kernels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "strata/kernel_tools.hpp"
#include "strata/reference_kernel.hpp"

namespace capped {
namespace {

using namespace strata;

/// Sizes of q [batch queries heads width], k and v [batch keys heads width]. Which positions the rank has, of queries
/// and of keys, decides on the mask.
struct Instance {
  explicit Instance(const OpInstance& op)
      : batch(op.operands[0].shape[0]),
        queries(op.operands[0].shape[1]),
        heads(op.operands[0].shape[2]),
        width(op.operands[0].shape[3]),
        keys(op.operands[1].shape[1]),
        cap(op.attributes.number("cap")),
        scale(1 / std::sqrt(static_cast<double>(width))),
        query_map(kernels::index_map(op, op.operands[0].dims[1])),
        key_map(kernels::index_map(op, op.operands[1].dims[1])) {}

  [[nodiscard]] std::int64_t query(std::int64_t b, std::int64_t h, std::int64_t q) const {
    return ((b * queries + q) * heads + h) * width;
  }
  [[nodiscard]] std::int64_t key(std::int64_t b, std::int64_t h, std::int64_t k) const {
    return ((b * keys + k) * heads + h) * width;
  }
  [[nodiscard]] std::int64_t row(std::int64_t b, std::int64_t h, std::int64_t q) const {
    return (b * heads + h) * queries + q;
  }
  [[nodiscard]] bool sees(std::int64_t q, std::int64_t k) const {
    return query_map.global_index(q) >= key_map.global_index(k);
  }

  std::int64_t batch, queries, heads, width, keys;
  double cap, scale;
  IndexMap query_map, key_map;
};

template <class X, class Y>
double dot(const X& x, std::int64_t x_first, const Y& y, std::int64_t y_first, std::int64_t width) {
  double sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += x[x_first + i] * y[y_first + i];
  return sum;
}

/// Calls body(batch, head, query, key) for every pair.
template <class Body>
void for_each_pair(const Instance& op, const Body& body) {
  for (std::int64_t b = 0; b < op.batch; ++b) {
    for (std::int64_t h = 0; h < op.heads; ++h) {
      for (std::int64_t q = 0; q < op.queries; ++q) {
        for (std::int64_t k = 0; k < op.keys; ++k) body(b, h, q, k);
      }
    }
  }
}

/// The attention to the keys of this rank, in `scores` [keys] of scratch memory. A query that sees none of them has o =
/// 0 and l = -inf.
template <class In, class Out>
void attend(const Instance& op, double* scores, const In& q, const In& k, const In& v, const Out& o, const Out& l) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  for_each_pair(op, [&](std::int64_t b, std::int64_t h, std::int64_t at, std::int64_t key) {
    const double score = op.scale * dot(q, op.query(b, h, at), k, op.key(b, h, key), op.width);
    scores[key] = op.sees(at, key) ? op.cap * std::tanh(score / op.cap) : kNothing;
    if (key + 1 < op.keys) return;
    // Scores are at most `cap`, so their exponentials need no largest one to be subtracted.
    double sum = 0;
    for (std::int64_t i = 0; i < op.keys; ++i) sum += std::exp(scores[i]);
    l.set(op.row(b, h, at), sum > 0 ? std::log(sum) : kNothing);
    for (std::int64_t j = 0; j < op.width; ++j) {
      double result = 0;
      for (std::int64_t i = 0; i < op.keys; ++i) result += std::exp(scores[i]) * v[op.key(b, h, i) + j];
      o.set(op.query(b, h, at) + j, sum > 0 ? result / sum : 0);
    }
  });
}

/// With p = exp(capped score - l) and D = do · o: the gradient of the capped score is p · (do · v - D), and the cap's
/// derivative is 1 - tanh².
template <class In, class Log, class Out>
void attend_back(const Instance& op, double* sums, const In& q, const In& k, const In& v, const In& o, const Log& l,
                 const In& dy, const Out& dq, const Out& dk, const Out& dv) {
  const std::int64_t of_queries = op.batch * op.queries * op.heads * op.width;
  const std::int64_t of_keys = op.batch * op.keys * op.heads * op.width;
  double* const dqs = sums;
  double* const dks = dqs + of_queries;
  double* const dvs = dks + of_keys;
  std::fill_n(sums, of_queries + 2 * of_keys, 0.0);
  for_each_pair(op, [&](std::int64_t b, std::int64_t h, std::int64_t at, std::int64_t key) {
    if (!op.sees(at, key)) return;
    const std::int64_t query_row = op.query(b, h, at);
    const std::int64_t key_row = op.key(b, h, key);
    const double capped = std::tanh(op.scale * dot(q, query_row, k, key_row, op.width) / op.cap);
    const double p = std::exp(op.cap * capped - l[op.row(b, h, at)]);
    const double d = dot(dy, query_row, v, key_row, op.width) - dot(dy, query_row, o, query_row, op.width);
    const double dscore = op.scale * p * d * (1 - capped * capped);
    for (std::int64_t j = 0; j < op.width; ++j) {
      dqs[query_row + j] += dscore * k[key_row + j];
      dks[key_row + j] += dscore * q[query_row + j];
      dvs[key_row + j] += p * dy[query_row + j];
    }
  });
  for (std::int64_t i = 0; i < of_queries; ++i) dq.set(i, dqs[i]);
  for (std::int64_t i = 0; i < of_keys; ++i) dk.set(i, dks[i]);
  for (std::int64_t i = 0; i < of_keys; ++i) dv.set(i, dvs[i]);
}

std::int64_t forward_workspace(const OpInstance& op) {
  return op.operands[1].shape[1] * static_cast<std::int64_t>(sizeof(double));
}

std::int64_t gradient_workspace(const OpInstance& op) {
  return (kernels::elements(op.operands[0]) + 2 * kernels::elements(op.operands[1])) *
         static_cast<std::int64_t>(sizeof(double));
}

reference::Work define_forward(const OpInstance& op) {
  return [instance = Instance(op)](const reference::Launch& launch) {
    attend(instance, launch.workspace(), launch.values(0), launch.values(1), launch.values(2), launch.result(0),
           launch.result(1));
  };
}

reference::Work define_gradient(const OpInstance& op) {
  return [instance = Instance(op)](const reference::Launch& launch) {
    attend_back(instance, launch.workspace(), launch.values(0), launch.values(1), launch.values(2), launch.values(3),
                launch.values(4), launch.values(5), launch.result(0), launch.result(1), launch.result(2));
  };
}

/// Writes f32.
struct Floats {
  void set(std::int64_t index, double value) const { data[index] = static_cast<float>(value); }
  float* data;
};

PreparedKernel prepare_forward(const OpInstance& op, const KernelEnvironment& /*environment*/) {
  return {[instance = Instance(op)](const KernelArguments& arguments) {
            const auto in = [&](std::size_t index) { return kernels::in<float>(arguments, index); };
            const auto out = [&](std::size_t index) { return Floats{kernels::out<float>(arguments, index)}; };
            attend(instance, static_cast<double*>(arguments.workspace), in(0), in(1), in(2), out(0), out(1));
          },
          forward_workspace(op)};
}

PreparedKernel prepare_gradient(const OpInstance& op, const KernelEnvironment& /*environment*/) {
  return {[instance = Instance(op)](const KernelArguments& arguments) {
            const auto in = [&](std::size_t index) { return kernels::in<float>(arguments, index); };
            const auto out = [&](std::size_t index) { return Floats{kernels::out<float>(arguments, index)}; };
            attend_back(instance, static_cast<double*>(arguments.workspace), in(0), in(1), in(2), in(3), in(4), in(5),
                        out(0), out(1), out(2));
          },
          gradient_workspace(op)};
}

}  // namespace

void register_kernels(Registration& registration, const std::string& forward, const std::string& gradient) {
  registration.add(reference::kernel({forward, "rrr", "rr", define_forward, true, forward_workspace}));
  registration.add(reference::kernel({gradient, "rrrrrr", "rrr", define_gradient, true, gradient_workspace}));
  // In f32 only: a device has the reference kernels for other types, and `strata check` says so.
  const std::vector<DType> f32{DType::f32};
  registration.add(
      {.op = forward, .signature = {.operands = "ttt", .results = "tt", .reals = f32}, .prepare = prepare_forward});
  registration.add({.op = gradient,
                    .signature = {.operands = "tttttt", .results = "ttt", .reals = f32},
                    .prepare = prepare_gradient});
}

}  // namespace capped
