#include "device/cuda_kernel.hpp"
#include "language/language.hpp"
#include "launchers/call.hpp"

/// \file
/// Rows of scores are short, one element for each expert. A thread computes a row.

namespace strata::cuda {

constexpr int kRowThreads = 128;

/// Shape and place of rows, of which every thread has one.
struct RowShape {
  std::int64_t rows;
  std::int64_t width;
};

__device__ __forceinline__ std::int64_t row_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

template <class T, class V>
__device__ __forceinline__ void store_value(T& to, V value, bool accumulate) {
  to = narrow<T>(accumulate ? widen(to) + value : value);
}

/// The largest element of a row, and the sum of exp(x - largest).
template <class V>
struct RowSum {
  V largest;
  V sum;
  __device__ __forceinline__ V logarithm() const { return largest + log(sum); }
};

template <class T>
__device__ __forceinline__ RowSum<Accumulate<T>> row_sum(const T* x, std::int64_t width) {
  using V = Accumulate<T>;
  RowSum<V> row{widen(x[0]), 0};
  for (std::int64_t j = 1; j < width; ++j) row.largest = Maximum{}(row.largest, static_cast<V>(widen(x[j])));
  for (std::int64_t j = 0; j < width; ++j) row.sum += exp(widen(x[j]) - row.largest);
  return row;
}

template <class T>
__global__ void softmax_rows(RowShape shape, const T* x, Accumulate<T>* y) {
  const std::int64_t row = row_of_thread();
  if (row >= shape.rows) return;
  x += row * shape.width;
  y += row * shape.width;
  const auto of = row_sum(x, shape.width);
  for (std::int64_t j = 0; j < shape.width; ++j) y[j] = exp(widen(x[j]) - of.largest) / of.sum;
}

template <class T>
__global__ void softmax_gradient_rows(RowShape shape, const Accumulate<T>* dy, const Accumulate<T>* y, T* dx,
                                      bool accumulate) {
  const std::int64_t row = row_of_thread();
  if (row >= shape.rows) return;
  const std::int64_t first = row * shape.width;
  Accumulate<T> sum = 0;
  for (std::int64_t j = first; j < first + shape.width; ++j) sum += dy[j] * y[j];
  for (std::int64_t j = first; j < first + shape.width; ++j) store_value(dx[j], y[j] * (dy[j] - sum), accumulate);
}

/// The k largest elements of a row, in the order of choice: of equals, the first one is better. `bias` is added where
/// they are compared, or null.
template <class T>
struct Choice {
  using V = Accumulate<T>;
  const T* scores;
  const T* bias;
  std::int64_t width;
  std::int64_t k;

  __device__ __forceinline__ V compared(std::int64_t j) const {
    return widen(scores[j]) + (bias != nullptr ? widen(bias[j]) : V{0});
  }
  __device__ __forceinline__ std::int64_t next(std::int64_t last) const {
    std::int64_t best = -1;
    for (std::int64_t j = 0; j < width; ++j) {
      const bool is_left = last < 0 || compared(j) < compared(last) || (compared(j) == compared(last) && j > last);
      if (is_left && (best < 0 || compared(j) > compared(best))) best = j;
    }
    return best;
  }
  template <class Body>
  __device__ __forceinline__ void each(const Body& body) const {
    std::int64_t j = next(-1);
    for (std::int64_t i = 0; i < k && j >= 0; ++i) {
      body(j);
      j = next(j);
    }
  }
  __device__ __forceinline__ V sum() const {
    V total = 0;
    each([&](std::int64_t j) { total += widen(scores[j]); });
    return total;
  }
};

template <class T>
__global__ void top_k_rows(RowShape shape, std::int64_t k, bool normalize, const T* scores, const T* bias, T* y) {
  const std::int64_t row = row_of_thread();
  if (row >= shape.rows) return;
  const Choice<T> choice{scores + row * shape.width, bias, shape.width, k};
  y += row * shape.width;
  const Accumulate<T> by = normalize ? choice.sum() : Accumulate<T>{1};
  for (std::int64_t j = 0; j < shape.width; ++j) y[j] = narrow<T>(Accumulate<T>{0});
  choice.each([&](std::int64_t j) { y[j] = narrow<T>(widen(choice.scores[j]) / by); });
}

template <class T>
__global__ void top_k_gradient_rows(RowShape shape, std::int64_t k, bool normalize, const T* dy, const T* scores,
                                    const T* bias, T* dx) {
  using V = Accumulate<T>;
  const std::int64_t row = row_of_thread();
  if (row >= shape.rows) return;
  const Choice<T> choice{scores + row * shape.width, bias, shape.width, k};
  dy += row * shape.width;
  dx += row * shape.width;
  const V by = normalize ? choice.sum() : V{1};
  V sum = 0;
  if (normalize) choice.each([&](std::int64_t j) { sum += widen(dy[j]) * widen(choice.scores[j]) / by; });
  for (std::int64_t j = 0; j < shape.width; ++j) dx[j] = narrow<T>(V{0});
  choice.each([&](std::int64_t j) { dx[j] = narrow<T>((widen(dy[j]) - sum) / by); });
}

/// False for rows of negative targets. `targets`: null if rows have none.
__device__ __forceinline__ bool counts(const std::int32_t* targets, std::int64_t row) {
  return targets == nullptr || targets[row] >= 0;
}

/// load[sequence, expert]: the share of the sequence's choices that the expert has, times the number of experts. One
/// block for each sequence.
template <class T>
__global__ void expert_loads(std::int64_t tokens, std::int64_t width, const T* gates, const std::int32_t* targets,
                             double* load) {
  const std::int64_t first = blockIdx.x * tokens;
  gates += first * width;
  load += blockIdx.x * width;
  double chosen = 0;
  for (std::int64_t j = threadIdx.x; j < width; j += blockDim.x) {
    double count = 0;
    for (std::int64_t token = 0; token < tokens; ++token) {
      count += widen(gates[token * width + j]) != 0 && counts(targets, first + token) ? 1 : 0;
    }
    load[j] = count;
    chosen += count;
  }
  const double total = Maximum{}(block_reduce(chosen, 0.0, Sum{}), 1.0);
  for (std::int64_t j = threadIdx.x; j < width; j += blockDim.x) load[j] *= static_cast<double>(width) / total;
}

/// The sum of a token's scores, and the mean of its experts' loads by them. In f64, because gradients are differences
/// of loads and means that are almost equal.
struct TokenBalance {
  double sum = 0;
  double mean = 0;

  template <class T>
  __device__ __forceinline__ TokenBalance(const T* scores, const double* load, std::int64_t width) {
    for (std::int64_t j = 0; j < width; ++j) {
      sum += widen(scores[j]);
      mean += static_cast<double>(widen(scores[j])) * load[j];
    }
    mean /= sum;
  }
};

template <class T>
struct BalanceOfRow {
  const T* scores;
  const double* load;
  std::int64_t tokens;

  __device__ __forceinline__ double operator()(std::int64_t row, std::int64_t width) const {
    return TokenBalance(scores + row * width, load + row / tokens * width, width).mean;
  }
};

template <class T>
struct SquareOfRow {
  const T* x;

  __device__ __forceinline__ double operator()(std::int64_t row, std::int64_t width) const {
    const double z = row_sum(x + row * width, width).logarithm();
    return z * z;
  }
};

/// total = weight · Σ of_row(row) of rows that count, by one block, so that the order of the sum is fixed.
template <class OfRow>
__global__ void sum_rows(RowShape shape, OfRow of_row, const std::int32_t* targets, double weight, double* total,
                         bool accumulate) {
  double sum = 0;
  for (std::int64_t row = threadIdx.x; row < shape.rows; row += blockDim.x) {
    if (counts(targets, row)) sum += of_row(row, shape.width);
  }
  sum = block_reduce(sum, 0.0, Sum{});
  if (threadIdx.x == 0) *total = (accumulate ? *total : 0.0) + weight * sum;
}

template <class T>
__global__ void balance_gradient_rows(RowShape shape, std::int64_t tokens, double weight, const T* scores,
                                      const double* load, const std::int32_t* targets, T* dx, bool accumulate) {
  using V = Accumulate<T>;
  const std::int64_t row = row_of_thread();
  if (row >= shape.rows) return;
  scores += row * shape.width;
  dx += row * shape.width;
  load += row / tokens * shape.width;
  const TokenBalance token(scores, load, shape.width);
  const double factor = counts(targets, row) ? weight / token.sum : 0;
  for (std::int64_t j = 0; j < shape.width; ++j) {
    store_value(dx[j], static_cast<V>(factor * (load[j] - token.mean)), accumulate);
  }
}

template <class T>
__global__ void z_gradient_rows(RowShape shape, double weight, const T* x, const std::int32_t* targets, T* dx,
                                bool accumulate) {
  using V = Accumulate<T>;
  const std::int64_t row = row_of_thread();
  if (row >= shape.rows) return;
  x += row * shape.width;
  dx += row * shape.width;
  const RowSum<V> of = row_sum(x, shape.width);
  const V factor = counts(targets, row) ? static_cast<V>(2 * weight) * of.logarithm() / of.sum : V{0};
  for (std::int64_t j = 0; j < shape.width; ++j) {
    store_value(dx[j], factor * exp(widen(x[j]) - of.largest), accumulate);
  }
}

/// One block for each column.
template <class T>
__device__ __forceinline__ double rows_that_choose(RowShape shape, const T* gates, const std::int32_t* targets) {
  double count = 0;
  for (std::int64_t row = threadIdx.x; row < shape.rows; row += blockDim.x) {
    count += widen(gates[row * shape.width + blockIdx.x]) != 0 && counts(targets, row) ? 1 : 0;
  }
  return block_reduce(count, 0.0, Sum{});
}

template <class T>
__global__ void count_chosen_rows(RowShape shape, const T* gates, const std::int32_t* targets, double* load,
                                  bool accumulate) {
  const double count = rows_that_choose(shape, gates, targets);
  double& to = load[blockIdx.x];
  if (threadIdx.x == 0) to = (accumulate ? to : 0.0) + count;
}

/// deficit[column] = k · rows - width · the rows that choose the column.
template <class T>
__global__ void load_deficits(RowShape shape, const T* gates, double k, Accumulate<T>* deficit, bool accumulate) {
  const double count = rows_that_choose(shape, gates, nullptr);
  const double found = k * static_cast<double>(shape.rows) - static_cast<double>(shape.width) * count;
  Accumulate<T>& to = deficit[blockIdx.x];
  if (threadIdx.x == 0) to = (accumulate ? to : 0) + static_cast<Accumulate<T>>(found);
}

namespace {

constexpr unsigned kSumThreads = 256;

RowShape shape_of(const OpInstance& op) { return {rows(op.operands[0]), columns(op.operands[0])}; }
Geometry geometry_of(const RowShape& shape) { return {{blocks_for(shape.rows, kRowThreads)}, {kRowThreads}}; }
Geometry geometry_of(const OpInstance& op) { return geometry_of(shape_of(op)); }
Geometry block_of_columns(const OpInstance& op) {
  return {{static_cast<unsigned>(columns(op.operands[0]))}, {kSumThreads}};
}

/// Both operands are f64, or neither and the result is not.
std::optional<std::string> unsupported_softmax_gradient(const OpInstance& op) {
  if ((op.operands[0].dtype == DType::f64) == (op.results[0].dtype == DType::f64)) return std::nullopt;
  return "has no kernel that mixes f64 and shorter types";
}

/// The operand `number`, or null if the op has fewer operands.
template <class T>
Operand<T> optional(const OpInstance& op, std::size_t number) {
  return {op.operands.size() > number ? number : kAbsent};
}

/// Launches the loads of experts, and then launch_rest(arguments, shape, tokens of a sequence, loads, targets).
template <class T, class Rest>
PreparedKernel with_loads(const OpInstance& op, const Rest& launch_rest) {
  const std::int64_t sequences = op.operands[0].shape[0];
  const RowShape shape = shape_of(op);
  return {[=, of_rows = optional<std::int32_t>(op, 2)](const KernelArguments& arguments) {
            auto* load = workspace_at<double>(arguments, 0);
            const std::int32_t* targets = argument(of_rows, arguments);
            launch(expert_loads<T>, {{static_cast<unsigned>(sequences)}, {kSumThreads}}, arguments.stream,
                   shape.rows / sequences, shape.width, in<T>(arguments, 1), targets, load);
            launch_rest(arguments, shape, shape.rows / sequences, load, targets);
          },
          sequences * shape.width * static_cast<std::int64_t>(sizeof(double))};
}

}  // namespace

void register_routing(Registration& registration) {
  add(registration, {"softmax", "t", "f"}, []<class T>(const OpInstance& op) {
    return call(softmax_rows<T>, geometry_of(op), shape_of(op), Operand<T>{0}, Result<Accumulate<T>>{0});
  });
  add(registration, {"softmax_gradient", "ff", "r", true, unsupported_softmax_gradient},
      []<class T>(const OpInstance& op) {
        using V = Accumulate<T>;
        return call(softmax_gradient_rows<T>, geometry_of(op), shape_of(op), Operand<V>{0}, Operand<V>{1}, Result<T>{0},
                    op.accumulate);
      });
  for (const std::string bias : {"", "t"}) {
    add(registration, {"top_k", "t" + bias, "t"}, []<class T>(const OpInstance& op) {
      return call(top_k_rows<T>, geometry_of(op), shape_of(op), op.attributes.integer("k"),
                  op.attributes.flag("normalize"), Operand<T>{0}, optional<T>(op, 1), Result<T>{0});
    });
    add(registration, {"top_k_gradient", "tt" + bias, "t"}, []<class T>(const OpInstance& op) {
      return call(top_k_gradient_rows<T>, geometry_of(op), shape_of(op), op.attributes.integer("k"),
                  op.attributes.flag("normalize"), Operand<T>{0}, Operand<T>{1}, optional<T>(op, 2), Result<T>{0});
    });
  }
  add(registration, {"load_deficit", "t", "f", true}, []<class T>(const OpInstance& op) {
    const auto k = static_cast<double>(op.attributes.integer("k"));
    return call(load_deficits<T>, block_of_columns(op), shape_of(op), Operand<T>{0}, k, Result<Accumulate<T>>{0},
                op.accumulate);
  });
  for (const std::string targets : {"", "i"}) {
    add(registration, {"count_choices", "t" + targets, "d", true}, []<class T>(const OpInstance& op) {
      return call(count_chosen_rows<T>, block_of_columns(op), shape_of(op), Operand<T>{0},
                  optional<std::int32_t>(op, 1), Result<double>{0}, op.accumulate);
    });
    add(registration, {"balance_loss", "tt" + targets, "d", true}, []<class T>(const OpInstance& op) {
      return with_loads<T>(op, [weight = op.attributes.number("weight"), accumulate = op.accumulate](
                                   const KernelArguments& arguments, RowShape shape, std::int64_t tokens,
                                   const double* load, const std::int32_t* targets) {
        launch(sum_rows<BalanceOfRow<T>>, {{1}, {kSumThreads}}, arguments.stream, shape,
               BalanceOfRow<T>{in<T>(arguments, 0), load, tokens}, targets, weight, out<double>(arguments, 0),
               accumulate);
      });
    });
    add(registration, {"balance_loss_gradient", "tt" + targets, "t", true}, []<class T>(const OpInstance& op) {
      return with_loads<T>(op, [weight = op.attributes.number("weight"), accumulate = op.accumulate](
                                   const KernelArguments& arguments, RowShape shape, std::int64_t tokens,
                                   const double* load, const std::int32_t* targets) {
        launch(balance_gradient_rows<T>, geometry_of(shape), arguments.stream, shape, tokens, weight,
               in<T>(arguments, 0), load, targets, out<T>(arguments, 0), accumulate);
      });
    });
    add(registration, {"z_loss", "t" + targets, "d", true}, []<class T>(const OpInstance& op) -> PreparedKernel {
      return {[shape = shape_of(op), weight = op.attributes.number("weight"), targets = optional<std::int32_t>(op, 1),
               accumulate = op.accumulate](const KernelArguments& arguments) {
        launch(sum_rows<SquareOfRow<T>>, {{1}, {kSumThreads}}, arguments.stream, shape,
               SquareOfRow<T>{in<T>(arguments, 0)}, argument(targets, arguments), weight, out<double>(arguments, 0),
               accumulate);
      }};
    });
    add(registration, {"z_loss_gradient", "t" + targets, "t", true}, []<class T>(const OpInstance& op) {
      return call(z_gradient_rows<T>, geometry_of(op), shape_of(op), op.attributes.number("weight"), Operand<T>{0},
                  optional<std::int32_t>(op, 1), Result<T>{0}, op.accumulate);
    });
  }
}

}  // namespace strata::cuda
