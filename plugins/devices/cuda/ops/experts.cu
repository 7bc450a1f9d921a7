#include <algorithm>
#include <string>
#include <vector>

#include "device/cuda_kernel.hpp"
#include "kernels/expert_products.cuh"
#include "language/launch.hpp"
#include "ops/activation.hpp"

/// \file
/// Experts with sums in f32 (f64 for f64), and products in 16 bits by matrix units: the choices of tokens are sorted by
/// expert. Rounds have some of the tokens with all their choices.

namespace strata::cuda {

/// y[token] = the sum of the rows of the token's choices, in the order of experts, times their gates if they are given.
/// NaN if tokens have more choices than there is room for, which no right result may hide. Each warp has a token.
template <class T>
__global__ void add_choices(ExpertShape shape, Choices<Accumulate<T>> choices, const Accumulate<T>* gates,
                            const Accumulate<T>* rows, T* y, bool accumulate) {
  using V = Accumulate<T>;
  constexpr int kColumns = 4;  // of a lane, so that their rows are loaded at once
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::int64_t token = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarpSize;
  if (token >= shape.tokens) return;
  const bool is_right = choices.offsets[shape.experts + 1] <= choices.capacity;
  for (std::int64_t first = lane; first - lane < shape.width; first += kColumns * kWarpSize) {
    V sums[kColumns];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums[i] = is_right ? V{0} : static_cast<V>(__uint_as_float(0x7fc00000U));
    for (std::int64_t expert = 0; expert < shape.experts; expert += kWarpSize) {
      const int own = expert + lane < shape.experts ? choices.choice_of[token * shape.experts + expert + lane] : -1;
      for (unsigned left = __ballot_sync(kFullMask, own >= 0); left != 0; left &= left - 1) {
        const std::int64_t choice = __shfl_sync(kFullMask, own, __ffs(static_cast<int>(left)) - 1);
        const V factor = gates != nullptr ? gates[choice] : V{1};
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
          const std::int64_t column = first + i * kWarpSize;
          if (column < shape.width) sums[i] += factor * rows[choice * shape.width + column];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const std::int64_t column = first + i * kWarpSize;
      if (column >= shape.width) continue;
      T& to = y[token * shape.width + column];
      to = narrow<T>(accumulate ? widen(to) + sums[i] : sums[i]);
    }
  }
}

/// d_gates[token, expert] = the sum of the choice's parts, or 0 without a choice. Each thread has one.
template <class V, class G>
__global__ void add_gate_parts(std::int64_t size, const int* choice_of, const V* parts, int parts_of_choice, G* d_gates,
                               bool accumulate) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= size) return;
  const std::int64_t choice = choice_of[i];
  V sum = accumulate ? static_cast<V>(widen(d_gates[i])) : V{0};
  for (int part = 0; choice >= 0 && part < parts_of_choice; ++part) sum += parts[choice * parts_of_choice + part];
  d_gates[i] = narrow<G>(sum);
}

namespace {

using devices::Pass;

/// The most choices of a round. More of them need fewer rounds, which each add to the gradients of weights, and more
/// memory.
constexpr std::int64_t kRoundChoices = 32768;
constexpr unsigned kMapThreads = 256;

template <class T, class G>
class ExpertsKernel {
 public:
  using V = Accumulate<T>;

  ExpertsKernel(const OpInstance& op, Pass pass, int kind)
      : pass_(pass), first_(pass == Pass::forward ? 0 : 1), kind_(kind), accumulate_(op.accumulate) {
    shape_ = {rows(op.operands[first_]), columns(op.operands[first_]), columns(op.operands[first_ + 1]),
              op.operands[first_ + 2].shape[1]};
    const std::int64_t choices_of_token = std::min(op.attributes.integer("choices"), shape_.experts);
    const std::int64_t most_tokens = std::max<std::int64_t>(1, kRoundChoices / choices_of_token);
    const std::int64_t rounds = (shape_.tokens + most_tokens - 1) / most_tokens;
    tokens_of_round_ = rounds == 0 ? 0 : (shape_.tokens + rounds - 1) / rounds;
    room_ = tokens_of_round_ * choices_of_token;
    result_ = op.results[0].dtype;
    const bool is_forward = pass == Pass::forward;
    const bool is_of_input = pass == Pass::input_gradient;
    const bool is_of_weights = pass == Pass::weight_gradient;
    offsets_ = reserve<int>(shape_.experts + 2);
    token_of_ = reserve<int>(room_);
    gates_ = reserve<V>(room_);
    choice_of_ = reserve<int>(tokens_of_round_ * shape_.experts);
    counts_ = reserve<int>(shape_.experts * blocks_for(tokens_of_round_, kListTokens));
    tiles_ = reserve<Segment>(tile_count<PlainTile<T>>());
    inner_ = reserve<T>(is_forward ? 0 : room_ * 2 * shape_.inner);
    hidden_ = reserve<T>(is_of_input ? 0 : room_ * shape_.inner);
    gate_parts_ = reserve<V>(is_of_input ? room_ * blocks_for(shape_.inner, PlainTile<T>::kSide) : 0);
    rows_ = reserve<V>(is_of_weights ? 0 : room_ * shape_.width);
  }

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_.bytes(); }

  void run(const KernelArguments& arguments) const {
    if constexpr (sizeof(T) == 2) {
      if (has_whole_chunks(arguments)) return run_rounds<MatrixTile<T>>(arguments);
    }
    run_rounds<PlainTile<T>>(arguments);
  }

 private:
  template <class U>
  std::int64_t reserve(std::int64_t count) {
    return workspace_.reserve(count * static_cast<std::int64_t>(sizeof(U)));
  }

  /// Tiles of a round. Every expert may have one that is not full.
  template <class Tile>
  [[nodiscard]] unsigned tile_count() const {
    return blocks_for(room_, Tile::kSide) + static_cast<unsigned>(std::min(shape_.experts, room_));
  }

  /// Whether all rows of matrices are whole chunks of 16 bytes at multiples of 16 bytes.
  [[nodiscard]] bool has_whole_chunks(const KernelArguments& arguments) const {
    bool are_aligned = shape_.width % 8 == 0 && shape_.inner % 8 == 0;
    for (const std::size_t operand : {std::size_t{0}, first_, first_ + 2, first_ + 3, first_ + 4}) {
      are_aligned = are_aligned && is_aligned(arguments.operands[operand]);
    }
    for (std::size_t result = 0; pass_ == Pass::weight_gradient && result < 3; ++result) {
      are_aligned = are_aligned && is_aligned(arguments.results[result]);
    }
    return are_aligned;
  }

  template <class Tile>
  void run_rounds(const KernelArguments& arguments) const {
    for (std::int64_t token = 0; token < shape_.tokens; token += tokens_of_round_) {
      run_round<Tile>(arguments, token, std::min(tokens_of_round_, shape_.tokens - token));
    }
  }

  template <class Tile>
  void run_round(const KernelArguments& arguments, std::int64_t first_token, std::int64_t tokens) const {
    const ExpertShape shape{tokens, shape_.width, shape_.experts, shape_.inner};
    const auto choices = list<Tile>(arguments, shape, first_token);
    const T* x = in<T>(arguments, first_) + first_token * shape.width;
    const T* dy = in<T>(arguments, 0) + first_token * shape.width;
    const T* w_gate = in<T>(arguments, first_ + 2);
    const T* w_up = in<T>(arguments, first_ + 3);
    const T* w_down = in<T>(arguments, first_ + 4);
    const bool is_forward = pass_ == Pass::forward;
    T* hidden = pass_ == Pass::input_gradient ? nullptr : workspace_at<T>(arguments, hidden_);
    T* inner = is_forward ? nullptr : workspace_at<T>(arguments, inner_);
    const auto grid = [&](std::int64_t columns, int side) -> Geometry {
      return {{blocks_for(columns, side), tile_count<Tile>()}, {Tile::kThreads}, Tile::kSharedBytes};
    };
    launch(multiply_inner<T, Tile>, grid(shape.inner, Tile::kSide / 2), arguments.stream, shape, choices, kind_, x,
           w_gate, w_up, is_forward ? hidden : nullptr, inner);
    V* rows = workspace_at<V>(arguments, rows_);
    T* y = pass_ == Pass::weight_gradient ? nullptr : out<T>(arguments, 0) + first_token * shape.width;
    if (is_forward) {
      launch(multiply_rows<T, Tile, false>, grid(shape.width, Tile::kSide), arguments.stream, shape, choices, hidden,
             w_down, nullptr, rows);
      return add(arguments, shape, choices, choices.gates, y);
    }
    V* gate_parts = pass_ == Pass::input_gradient ? workspace_at<V>(arguments, gate_parts_) : nullptr;
    launch(differentiate_inner<T, Tile>, grid(shape.inner, Tile::kSide), arguments.stream, shape, choices, kind_, dy,
           w_down, inner, hidden, gate_parts);
    if (pass_ == Pass::weight_gradient) {
      return with_element(
          result_, [&]<class R>() { add_weights<Tile, R>(arguments, choices, first_token > 0, x, dy, inner, hidden); });
    }
    const std::int64_t gates = shape.tokens * shape.experts;
    launch(add_gate_parts<V, G>, {{blocks_for(gates, kMapThreads)}, {kMapThreads}}, arguments.stream, gates,
           choices.choice_of, gate_parts, static_cast<int>(blocks_for(shape.inner, Tile::kSide)),
           out<G>(arguments, 1) + first_token * shape.experts, accumulate_);
    launch(multiply_rows<T, Tile, true>, grid(shape.width, Tile::kSide), arguments.stream, shape, choices, inner,
           w_gate, w_up, rows);
    add(arguments, shape, choices, nullptr, y);
  }

  template <class Tile>
  Choices<V> list(const KernelArguments& arguments, const ExpertShape& shape, std::int64_t first_token) const {
    const Choices<V> choices{static_cast<int>(room_),
                             workspace_at<int>(arguments, offsets_),
                             workspace_at<int>(arguments, token_of_),
                             workspace_at<V>(arguments, gates_),
                             workspace_at<int>(arguments, choice_of_),
                             workspace_at<Segment>(arguments, tiles_),
                             static_cast<int>(tile_count<Tile>())};
    const G* gates = in<G>(arguments, first_ + 1) + first_token * shape.experts;
    int* counts = workspace_at<int>(arguments, counts_);
    const unsigned blocks = blocks_for(shape.tokens, kListTokens);
    launch(count_choices<V, G>, {{blocks}, {kListThreads}}, arguments.stream, shape, gates, counts);
    launch(place_choices<V>, {{1}, {kListThreads}}, arguments.stream, static_cast<int>(shape.experts),
           static_cast<int>(blocks), Tile::kSide, counts, choices);
    launch(list_choices<V, G>, {{blocks}, {kListThreads}}, arguments.stream, shape, gates, counts, choices);
    return choices;
  }

  void add(const KernelArguments& arguments, const ExpertShape& shape, const Choices<V>& choices, const V* gates,
           T* y) const {
    launch(add_choices<T>, {{blocks_for(shape.tokens, kMapThreads / kWarpSize)}, {kMapThreads}}, arguments.stream,
           shape, choices, gates, workspace_at<V>(arguments, rows_), y, accumulate_);
  }

  template <class Tile, class R>
  void add_weights(const KernelArguments& arguments, const Choices<V>& choices, bool adds_to_round, const T* x,
                   const T* dy, const T* d_inner, const T* hidden) const {
    const int width = static_cast<int>(shape_.width);
    const int inner = static_cast<int>(shape_.inner);
    const auto grid = [&](int rows, int columns) -> Geometry {
      return {{blocks_for(columns, Tile::kSide), blocks_for(rows, Tile::kSide), static_cast<unsigned>(shape_.experts)},
              {Tile::kThreads},
              Tile::kSharedBytes};
    };
    const bool adds = accumulate_ || adds_to_round;
    launch(sum_outer_products<T, Tile, R, false>, grid(2 * inner, width), arguments.stream, choices, 2 * inner, width,
           inner, d_inner, x, out<R>(arguments, 0), out<R>(arguments, 1), adds);
    launch(sum_outer_products<T, Tile, R, true>, grid(width, inner), arguments.stream, choices, width, inner, width, dy,
           hidden, out<R>(arguments, 2), nullptr, adds);
  }

  Pass pass_;
  std::size_t first_;  // the operand x
  int kind_;           // number in ExpertActivations
  bool accumulate_;
  ExpertShape shape_{};
  std::int64_t tokens_of_round_ = 0;
  std::int64_t room_ = 0;  // for choices of a round
  DType result_ = DType::f32;
  WorkspacePlan workspace_;
  std::int64_t offsets_ = 0;
  std::int64_t token_of_ = 0;
  std::int64_t gates_ = 0;
  std::int64_t choice_of_ = 0;
  std::int64_t counts_ = 0;
  std::int64_t tiles_ = 0;
  std::int64_t inner_ = 0;
  std::int64_t hidden_ = 0;
  std::int64_t gate_parts_ = 0;
  std::int64_t rows_ = 0;
};

template <class T, class G>
PreparedKernel prepare_types(const OpInstance& op, Pass pass) {
  const std::vector<std::string> kinds = names_of(ExpertActivations{});
  const auto kind = std::find(kinds.begin(), kinds.end(), op.attributes.word("kind")) - kinds.begin();
  return devices::prepared<ExpertsKernel<T, G>>(op, pass, static_cast<int>(kind));
}

template <Pass pass>
struct Experts {
  template <class T>
  PreparedKernel operator()(const OpInstance& op) const {
    const std::size_t x = pass == Pass::forward ? 0 : 1;
    if (op.operands[x + 1].dtype == op.operands[x].dtype) return prepare_types<T, T>(op, pass);
    return prepare_types<T, Accumulate<T>>(op, pass);
  }
};

template <Pass pass>
std::optional<std::string> unsupported_experts(const OpInstance& op) {
  const std::size_t x = pass == Pass::forward ? 0 : 1;
  const DType gates = op.operands[x + 1].dtype;
  if (gates != op.operands[x].dtype && gates != DType::f32) return "takes gates of the type of x, or in f32";
  if (gates == DType::f32 && op.operands[x].dtype == DType::f64) return "takes gates in f64 with x in f64";
  if (pass == Pass::input_gradient && op.results[1].dtype != gates) return "gives gradients of the gates' type";
  if (pass == Pass::weight_gradient) {
    for (const OperandDescription& each : op.results) {
      if (each.dtype != op.results[0].dtype) return "gives gradients of one type";
    }
  }
  return devices::unsupported_activation_kind(op, names_of(ExpertActivations{}));
}

template <Pass pass>
void add_pass(Registration& registration, const std::string& op, const std::string& operands,
              const std::string& results) {
  add(registration, {op, operands, results, true, unsupported_experts<pass>}, Experts<pass>{});
}

}  // namespace

void register_experts(Registration& registration) {
  add_pass<Pass::forward>(registration, "experts", "trttt", "t");
  add_pass<Pass::input_gradient>(registration, "experts_input_gradient", "ttrttt", "tr");
  add_pass<Pass::weight_gradient>(registration, "experts_weight_gradient", "ttrttt", "rrr");
}

}  // namespace strata::cuda
