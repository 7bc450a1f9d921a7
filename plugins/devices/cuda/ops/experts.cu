#include <algorithm>
#include <string>
#include <vector>

#include "device/cuda_kernel.hpp"
#include "kernels/activation.cuh"
#include "kernels/expert_products.cuh"
#include "language/launch.hpp"

/// \file
/// Experts with sums in f32 (f64 for f64), and products in 16 bits by matrix units: the choices of tokens are sorted by
/// expert, and computed in rounds.

namespace strata::cuda {

constexpr int kListThreads = 256;

/// count[expert + 1]: how many tokens choose the expert. One block for each expert.
template <class G>
__global__ void count_choices(ExpertShape shape, const G* gates, int* counts) {
  int count = 0;
  for (std::int64_t token = threadIdx.x; token < shape.tokens; token += blockDim.x) {
    if (widen(gates[token * shape.experts + blockIdx.x]) != 0) ++count;
  }
  count = block_reduce(count, 0, Sum{});
  if (threadIdx.x == 0) counts[blockIdx.x + 1] = count;
}

/// Offsets from counts, by one thread. Experts are few.
__global__ void add_offsets(ExpertShape shape, int* offsets) {
  offsets[0] = 0;
  for (std::int64_t expert = 0; expert < shape.experts; ++expert) offsets[expert + 1] += offsets[expert];
}

/// Lists the choices, one block for each expert. Every thread has a run of tokens. `capacity`: of the list.
template <class G>
__global__ void list_choices(ExpertShape shape, const G* gates, Choices choices, std::int64_t capacity) {
  __shared__ int counts[kListThreads];
  const std::int64_t run = (shape.tokens + kListThreads - 1) / kListThreads;
  const std::int64_t begin = threadIdx.x * run;
  const std::int64_t end = begin + run < shape.tokens ? begin + run : shape.tokens;
  const auto is_chosen = [&](std::int64_t token) { return widen(gates[token * shape.experts + blockIdx.x]) != 0; };
  int count = 0;
  for (std::int64_t token = begin; token < end; ++token) count += is_chosen(token) ? 1 : 0;
  counts[threadIdx.x] = count;
  __syncthreads();
  std::int64_t place = choices.offsets[blockIdx.x];
  for (unsigned thread = 0; thread < threadIdx.x; ++thread) place += counts[thread];
  for (std::int64_t token = begin; token < end; ++token) {
    const bool fits = is_chosen(token) && place < capacity;
    choices.choice_of[token * shape.experts + blockIdx.x] = fits ? static_cast<int>(place) : -1;
    if (!is_chosen(token)) continue;
    if (fits) choices.token_of[place] = static_cast<int>(token);
    ++place;
  }
}

/// The choice of a block, if the round has it, and its expert. Blocks are choices.
struct ChoiceOfBlock {
  std::int64_t choice;
  std::int64_t row;
  int expert = 0;
  bool exists;

  __device__ __forceinline__ ChoiceOfBlock(const ExpertShape& shape, const Choices& choices, const Round& round)
      : choice(round.begin + blockIdx.x), row(blockIdx.x) {
    exists = choice < round.end && choice < choices.offsets[shape.experts];
    while (exists && choices.offsets[expert + 1] <= choice) ++expert;
  }
};

/// pre = f(pre) · up
template <class V, class Kind>
__global__ void activate_rows(ExpertShape shape, Choices choices, Round round, V* pre, const V* up) {
  const ChoiceOfBlock of(shape, choices, round);
  if (!of.exists) return;
  for (std::int64_t i = of.row * shape.inner + threadIdx.x; i < (of.row + 1) * shape.inner; i += blockDim.x) {
    pre[i] = Kind::value(pre[i]) * up[i];
  }
}

/// The gradients of hidden values: pre becomes dpre, up becomes dup, and d_hidden becomes the hidden values times their
/// gate. dgates may be null.
template <class V, class Kind, class G>
__global__ void differentiate_rows(ExpertShape shape, Choices choices, Round round, const G* gates, V* pre, V* up,
                                   V* d_hidden, G* dgates, bool accumulate) {
  const ChoiceOfBlock of(shape, choices, round);
  if (!of.exists) return;
  const std::int64_t at = choices.token_of[of.choice] * shape.experts + of.expert;
  const V gate = static_cast<V>(widen(gates[at]));
  V product = 0;
  for (std::int64_t i = of.row * shape.inner + threadIdx.x; i < (of.row + 1) * shape.inner; i += blockDim.x) {
    const V value = Kind::value(pre[i]);
    const V hidden = value * up[i];
    const V d = d_hidden[i];
    product += hidden * d;
    pre[i] = gate * d * up[i] * Kind::derivative(pre[i]);
    up[i] = gate * d * value;
    d_hidden[i] = gate * hidden;
  }
  if (dgates == nullptr) return;
  product = block_reduce(product, V{0}, Sum{});
  if (threadIdx.x == 0) dgates[at] = narrow<G>(accumulate ? static_cast<V>(widen(dgates[at])) + product : product);
}

/// sums[token] += the rows of the token's choices in the round, in the order of experts, times their gates (null: 1).
/// One block for each token.
template <class V, class G>
__global__ void add_choices(ExpertShape shape, Choices choices, Round round, const G* gates, const V* rows, V* sums) {
  const std::int64_t token = blockIdx.x;
  for (std::int64_t expert = 0; expert < shape.experts; ++expert) {
    const std::int64_t choice = choices.choice_of[token * shape.experts + expert];
    if (choice < round.begin || choice >= round.end) continue;
    const V factor = gates != nullptr ? static_cast<V>(widen(gates[token * shape.experts + expert])) : V{1};
    for (std::int64_t c = threadIdx.x; c < shape.width; c += blockDim.x) {
      sums[token * shape.width + c] += factor * rows[(choice - round.begin) * shape.width + c];
    }
  }
}

/// to = 0
template <class T>
__global__ void clear_values(std::int64_t size, T* to) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < size) to[i] = narrow<T>(Accumulate<T>{0});
}

/// y = sums; NaN if tokens have more choices than there is room for, which no right result may hide.
template <class T>
__global__ void store_sums(ExpertShape shape, Choices choices, std::int64_t capacity, const Accumulate<T>* sums, T* y,
                           bool accumulate) {
  using V = Accumulate<T>;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= shape.tokens * shape.width) return;
  V value = accumulate ? widen(y[i]) + sums[i] : sums[i];
  if (choices.offsets[shape.experts] > capacity) value = static_cast<V>(__uint_as_float(0x7fc00000U));
  y[i] = narrow<T>(value);
}

namespace {

enum class ExpertsPass : std::uint8_t { forward, input_gradient, weight_gradient };

/// Choices of a round. More of them need more rounds, and less memory.
constexpr std::int64_t kRoundChoices = 4096;
constexpr unsigned kMapThreads = 256;

template <class T, class G, class Kind>
class ExpertsKernel {
 public:
  using V = Accumulate<T>;

  ExpertsKernel(const OpInstance& op, ExpertsPass pass)
      : pass_(pass), first_(pass == ExpertsPass::forward ? 0 : 1), accumulate_(op.accumulate) {
    shape_ = {rows(op.operands[first_]), columns(op.operands[first_]), columns(op.operands[first_ + 1]),
              op.operands[first_ + 2].shape[1]};
    capacity_ = shape_.tokens * std::min(op.attributes.integer("choices"), shape_.experts);
    room_ = std::min(capacity_, kRoundChoices);
    result_ = op.results[0].dtype;
    const auto ints = [](std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(int)); };
    const auto values = [](std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(V)); };
    offsets_ = workspace_.reserve(ints(shape_.experts + 1));
    token_of_ = workspace_.reserve(ints(capacity_));
    choice_of_ = workspace_.reserve(ints(shape_.tokens * shape_.experts));
    for (std::int64_t* inner : {&pre_, &up_, &d_hidden_}) *inner = workspace_.reserve(values(room_ * shape_.inner));
    const bool has_sums = pass != ExpertsPass::weight_gradient;
    rows_ = workspace_.reserve(has_sums ? values(room_ * shape_.width) : 0);
    sums_ = workspace_.reserve(has_sums ? values(shape_.tokens * shape_.width) : 0);
  }

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_.bytes(); }

  void run(const KernelArguments& arguments) const {
    list(arguments);
    if (pass_ != ExpertsPass::weight_gradient) {
      clear(arguments, shape_.tokens * shape_.width, workspace_at<V>(arguments, sums_));
    }
    if (pass_ == ExpertsPass::input_gradient && !accumulate_) {
      clear(arguments, shape_.tokens * shape_.experts, out<G>(arguments, 1));
    }
    for (std::int64_t begin = 0; begin < capacity_; begin += room_) {
      compute(arguments, {begin, std::min(begin + room_, capacity_)});
    }
    if (pass_ == ExpertsPass::weight_gradient) return;
    launch(store_sums<T>, {{blocks_for(shape_.tokens * shape_.width, kMapThreads)}, {kMapThreads}}, arguments.stream,
           shape_, choices(arguments), capacity_, workspace_at<V>(arguments, sums_), out<T>(arguments, 0), accumulate_);
  }

 private:
  [[nodiscard]] Choices choices(const KernelArguments& arguments) const {
    return {workspace_at<int>(arguments, offsets_), workspace_at<int>(arguments, token_of_),
            workspace_at<int>(arguments, choice_of_)};
  }

  template <class U>
  static void clear(const KernelArguments& arguments, std::int64_t size, U* values) {
    launch(clear_values<U>, {{blocks_for(size, kMapThreads)}, {kMapThreads}}, arguments.stream, size, values);
  }

  void list(const KernelArguments& arguments) const {
    const Choices of = choices(arguments);
    const G* gates = in<G>(arguments, first_ + 1);
    const Geometry by_expert{{static_cast<unsigned>(shape_.experts)}, {kListThreads}};
    launch(count_choices<G>, by_expert, arguments.stream, shape_, gates, of.offsets);
    launch(add_offsets, {{1}, {1}}, arguments.stream, shape_, of.offsets);
    launch(list_choices<G>, by_expert, arguments.stream, shape_, gates, of, capacity_);
  }

  /// Tiles of a round. Every expert may have one that is not full.
  [[nodiscard]] Geometry tiles(std::int64_t columns) const {
    const std::int64_t tiles = blocks_for(room_, kProductTile<T>) + std::min(shape_.experts, room_);
    return {{static_cast<unsigned>(tiles), blocks_for(columns, kProductTile<T>)}, {kProductThreads}};
  }

  /// Rows of tokens times an expert's matrix of `operand`.
  template <Side kSide>
  void multiply_tokens(const KernelArguments& arguments, const Round& round, std::size_t tokens, std::size_t operand,
                       V* to) const {
    launch(multiply_rows<T, T, true, kSide>, tiles(shape_.inner), arguments.stream, shape_, choices(arguments), round,
           shape_.inner, shape_.width, in<T>(arguments, tokens), in<T>(arguments, operand), to, false);
  }

  template <Side kSide>
  void multiply_inner(const KernelArguments& arguments, const Round& round, const V* from, std::size_t operand,
                      bool accumulate) const {
    launch(multiply_rows<T, V, false, kSide>, tiles(shape_.width), arguments.stream, shape_, choices(arguments), round,
           shape_.width, shape_.inner, from, in<T>(arguments, operand), workspace_at<V>(arguments, rows_), accumulate);
  }

  void compute(const KernelArguments& arguments, const Round& round) const {
    V* pre = workspace_at<V>(arguments, pre_);
    V* up = workspace_at<V>(arguments, up_);
    V* d_hidden = workspace_at<V>(arguments, d_hidden_);
    const Choices of = choices(arguments);
    const Geometry by_choice{{static_cast<unsigned>(room_)}, {kMapThreads}};
    multiply_tokens<Side::rows>(arguments, round, first_, first_ + 2, pre);
    multiply_tokens<Side::rows>(arguments, round, first_, first_ + 3, up);
    if (pass_ == ExpertsPass::forward) {
      launch(activate_rows<V, Kind>, by_choice, arguments.stream, shape_, of, round, pre, up);
      multiply_inner<Side::rows>(arguments, round, pre, first_ + 4, false);
      return add(arguments, round, in<G>(arguments, first_ + 1));
    }
    multiply_tokens<Side::columns>(arguments, round, 0, first_ + 4, d_hidden);
    const bool is_of_input = pass_ == ExpertsPass::input_gradient;
    launch(differentiate_rows<V, Kind, G>, by_choice, arguments.stream, shape_, of, round, in<G>(arguments, first_ + 1),
           pre, up, d_hidden, is_of_input ? out<G>(arguments, 1) : nullptr, accumulate_);
    if (is_of_input) {
      multiply_inner<Side::columns>(arguments, round, pre, first_ + 2, false);
      multiply_inner<Side::columns>(arguments, round, up, first_ + 3, true);
      return add(arguments, round, static_cast<const G*>(nullptr));
    }
    with_element(result_, [&]<class R>() { add_weights<R>(arguments, round, pre, up, d_hidden); });
  }

  void add(const KernelArguments& arguments, const Round& round, const G* gates) const {
    launch(add_choices<V, G>, {{static_cast<unsigned>(shape_.tokens)}, {kMapThreads}}, arguments.stream, shape_,
           choices(arguments), round, gates, workspace_at<V>(arguments, rows_), workspace_at<V>(arguments, sums_));
  }

  template <class R>
  void add_weights(const KernelArguments& arguments, const Round& round, const V* d_pre, const V* d_up,
                   const V* hidden) const {
    const bool adds = accumulate_ || round.begin > 0;
    const auto geometry = [&](std::int64_t rows, std::int64_t columns) -> Geometry {
      return {{blocks_for(columns, kProductTile<T>), blocks_for(rows, kProductTile<T>),
               static_cast<unsigned>(shape_.experts)},
              {kProductThreads}};
    };
    for (const std::size_t i : {0U, 1U}) {
      launch(sum_outer_products<T, R, false>, geometry(shape_.inner, shape_.width), arguments.stream,
             choices(arguments), round, shape_.inner, shape_.width, in<T>(arguments, first_), i == 0 ? d_pre : d_up,
             out<R>(arguments, i), adds);
    }
    launch(sum_outer_products<T, R, true>, geometry(shape_.width, shape_.inner), arguments.stream, choices(arguments),
           round, shape_.width, shape_.inner, in<T>(arguments, 0), hidden, out<R>(arguments, 2), adds);
  }

  ExpertsPass pass_;
  std::size_t first_;  // the operand x
  bool accumulate_;
  ExpertShape shape_{};
  std::int64_t capacity_ = 0;
  std::int64_t room_ = 0;
  DType result_ = DType::f32;
  WorkspacePlan workspace_;
  std::int64_t offsets_ = 0;
  std::int64_t token_of_ = 0;
  std::int64_t choice_of_ = 0;
  std::int64_t pre_ = 0;
  std::int64_t up_ = 0;
  std::int64_t d_hidden_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t sums_ = 0;
};

/// Functions of gates in published models.
template <class... Kinds>
std::vector<std::string> names_of(ActivationList<Kinds...> /*kinds*/) {
  return {Kinds::kKind...};
}
using ExpertActivations = ActivationList<GeluTanh, Relu, Silu>;

template <class T, class G, class First, class... Rest>
PreparedKernel prepare_kind(const OpInstance& op, ExpertsPass pass, ActivationList<First, Rest...> /*kinds*/) {
  if constexpr (sizeof...(Rest) > 0) {
    if (op.attributes.word("kind") != First::kKind) return prepare_kind<T, G>(op, pass, ActivationList<Rest...>{});
  }
  const ExpertsKernel<T, G, First> kernel(op, pass);
  return {[kernel](const KernelArguments& arguments) { kernel.run(arguments); }, kernel.workspace_bytes()};
}

template <ExpertsPass pass>
PreparedKernel prepare_experts(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  const std::size_t x = pass == ExpertsPass::forward ? 0 : 1;
  return with_element(op.operands[x].dtype, [&]<class T>() -> PreparedKernel {
    if (op.operands[x + 1].dtype == op.operands[x].dtype) return prepare_kind<T, T>(op, pass, ExpertActivations{});
    return prepare_kind<T, Accumulate<T>>(op, pass, ExpertActivations{});
  });
}

template <ExpertsPass pass>
std::optional<std::string> unsupported_experts(const OpInstance& op) {
  const std::size_t x = pass == ExpertsPass::forward ? 0 : 1;
  const DType gates = op.operands[x + 1].dtype;
  if (gates != op.operands[x].dtype && gates != DType::f32) return "takes gates of the type of x, or in f32";
  if (gates == DType::f32 && op.operands[x].dtype == DType::f64) return "takes gates in f64 with x in f64";
  if (pass == ExpertsPass::input_gradient && op.results[1].dtype != gates) return "gives gradients of the gates' type";
  if (pass == ExpertsPass::weight_gradient) {
    for (const OperandDescription& each : op.results) {
      if (each.dtype != op.results[0].dtype) return "gives gradients of one type";
    }
  }
  return devices::unsupported_activation_kind(op, names_of(ExpertActivations{}));
}

template <ExpertsPass pass>
void add_pass(Registration& registration, const std::string& op, const std::string& operands,
              const std::string& results) {
  registration.add(kernel({op, operands, results, prepare_experts<pass>, true, unsupported_experts<pass>}));
}

}  // namespace

void register_experts(Registration& registration) {
  add_pass<ExpertsPass::forward>(registration, "experts", "trttt", "t");
  add_pass<ExpertsPass::input_gradient>(registration, "experts_input_gradient", "ttrttt", "tr");
  add_pass<ExpertsPass::weight_gradient>(registration, "experts_weight_gradient", "ttrttt", "rrr");
}

}  // namespace strata::cuda
