#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/matrix_product.hpp"
#include "ops/activation.hpp"

/// \file
/// An expert's tokens are gathered to chunks of a fixed number of rows, as many chunks as it has tokens for. So memory
/// is the same for any routing. Experts and chunks follow one another, so every sum has one order.

namespace strata::cpu {
namespace {

/// Rows of a chunk. A larger one is taken as long as the expert has as many tokens left.
constexpr std::array<std::int64_t, 3> kChunkRows{256, 64, 16};

/// A kind of product, prepared for every size of a chunk.
class ChunkProducts {
 public:
  ChunkProducts() = default;
  /// `rows`: the size that is the number of rows of a chunk.
  ChunkProducts(MatrixProductShape shape, std::int64_t MatrixProductShape::*rows, std::int64_t tokens, int threads) {
    for (const std::int64_t size : kChunkRows) {
      if (size > kChunkRows.back() && size > tokens) continue;
      shape.*rows = size;
      products_.push_back({size, std::make_unique<MatrixProduct>(shape, threads)});
    }
  }

  [[nodiscard]] std::int64_t workspace_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& [rows, product] : products_) bytes = std::max(bytes, product->workspace_bytes());
    return bytes;
  }
  /// Rows of the largest chunk.
  [[nodiscard]] std::int64_t most_rows() const { return products_.front().first; }
  /// Rows of the next chunk of an expert that has `left` more tokens.
  [[nodiscard]] std::int64_t next_rows(std::int64_t left) const {
    for (const auto& [rows, product] : products_) {
      if (rows <= left) return rows;
    }
    return products_.back().first;
  }
  void run(std::int64_t rows, const void* a, const void* b, void* c, void* workspace) const {
    for (const auto& [size, product] : products_) {
      if (size == rows) product->run(a, b, nullptr, c, workspace);
    }
  }

 private:
  std::vector<std::pair<std::int64_t, std::unique_ptr<MatrixProduct>>> products_;
};

using devices::Pass;

/// One chunk of an expert's tokens.
struct Chunk {
  std::int64_t expert = 0;
  const std::int32_t* tokens = nullptr;
  std::int64_t count = 0;
  std::int64_t rows = 0;  // of the products; those beyond `count` are 0
};

/// One pass over the experts. Every pass computes the hidden values first.
template <class T>
class ExpertsKernel {
 public:
  ExpertsKernel(const OpInstance& op, const CpuEnvironment& environment, Pass pass)
      : pass_(pass),
        first_(pass == Pass::forward ? 0 : 1),
        threads_(environment.threads()),
        accumulate_(op.accumulate),
        tokens_(rows(op.operands[first_])),
        width_(columns(op.operands[first_])),
        experts_(columns(op.operands[first_ + 1])),
        inner_(op.operands[first_ + 2].shape[1]),
        gate_type_(op.operands[first_ + 1].dtype),
        result_type_(op.results[0].dtype),
        gate_gradient_type_(op.results.back().dtype),
        activation_(activation_kernels_of<T>(op, environment)),
        convert_(conversion_kernels(environment.instruction_set()).convert) {
    prepare_products();
    reserve();
  }

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_.bytes(); }

  void run(const KernelArguments& arguments) const {
    begin(arguments);
    const float* gates = kernels::workspace_at<float>(arguments, gates_);
    auto* chosen = kernels::workspace_at<std::int32_t>(arguments, chosen_);
    for (std::int64_t expert = 0; expert < experts_; ++expert) {
      std::int64_t count = 0;
      for (std::int64_t token = 0; token < tokens_; ++token) {
        if (gates[token * experts_ + expert] != 0) chosen[count++] = static_cast<std::int32_t>(token);
      }
      begin_expert(arguments, expert);
      for (std::int64_t done = 0; done < count;) {
        const std::int64_t size = hidden_.next_rows(count - done);
        const Chunk chunk{expert, chosen + done, std::min(size, count - done), size};
        compute(chunk, arguments);
        done += chunk.count;
      }
      end_expert(arguments, expert);
    }
    if (sums_are_apart() && pass_ != Pass::weight_gradient) {
      convert_(tokens_ * width_, Element::f32, sums(arguments), element_of(result_type_), arguments.results[0],
               accumulate_, threads_);
    }
  }

 private:
  static Element element() {
    if constexpr (std::is_same_v<T, BFloat16>) return Element::bf16;
    return std::is_same_v<T, Float16> ? Element::f16 : Element::f32;
  }

  void prepare_products() {
    constexpr auto kRows = &MatrixProductShape::rows;
    const auto make = [&](MatrixProductShape shape, std::int64_t MatrixProductShape::*rows) {
      shape.element = element();
      if (shape.result != Element::f32) shape.result = element();
      return ChunkProducts(shape, rows, tokens_, threads_);
    };
    const Element own = Element::bf16;  // stands for the type of the operands
    hidden_ = make({.columns = inner_, .depth = width_, .transpose_b = true, .result = own}, kRows);
    if (pass_ == Pass::forward) {
      out_ = make({.columns = width_, .depth = inner_, .transpose_b = true}, kRows);
      return;
    }
    d_hidden_ = make({.columns = inner_, .depth = width_, .result = own}, kRows);
    if (pass_ == Pass::input_gradient) {
      out_ = make({.columns = width_, .depth = inner_}, kRows);
      more_out_ = make({.columns = width_, .depth = inner_, .accumulate = true}, kRows);
      return;
    }
    constexpr auto kDepth = &MatrixProductShape::depth;
    d_wide_ = make({.rows = inner_, .columns = width_, .transpose_a = true, .accumulate = true}, kDepth);
    d_narrow_ = make({.rows = width_, .columns = inner_, .transpose_a = true, .accumulate = true}, kDepth);
  }

  void reserve() {
    const std::int64_t rows = hidden_.most_rows();
    const auto bytes = [](std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(T)); };
    gates_ = workspace_.reserve(tokens_ * experts_ * std::int64_t{sizeof(float)});
    chosen_ = workspace_.reserve(tokens_ * std::int64_t{sizeof(std::int32_t)});
    for (std::int64_t* wide : {&x_, &dy_}) *wide = workspace_.reserve(bytes(rows * width_));
    for (std::int64_t* inner : {&pre_, &up_, &act_, &d_act_, &d_pre_, &d_up_}) {
      *inner = workspace_.reserve(bytes(rows * inner_));
    }
    y_ = workspace_.reserve(rows * width_ * std::int64_t{sizeof(float)});
    const bool is_of_weights = pass_ == Pass::weight_gradient;
    const std::int64_t sums = is_of_weights ? 3 * inner_ * width_ : tokens_ * width_;
    sums_ = workspace_.reserve(sums_are_apart() ? sums * std::int64_t{sizeof(float)} : 0);
    std::int64_t most = 0;
    for (const ChunkProducts* each : {&hidden_, &out_, &d_hidden_, &more_out_, &d_wide_, &d_narrow_}) {
      most = std::max(most, each->workspace_bytes());
    }
    product_ = workspace_.reserve(most);
  }

  /// True if the results are not f32, so that sums are collected in the workspace.
  [[nodiscard]] bool sums_are_apart() const { return result_type_ != DType::f32; }
  /// The memory in which y or dx is summed.
  [[nodiscard]] float* sums(const KernelArguments& arguments) const {
    return sums_are_apart() ? kernels::workspace_at<float>(arguments, sums_) : out<float>(arguments, 0);
  }
  /// The memory in which the gradient of an expert's matrix `index` is summed.
  [[nodiscard]] float* weight_sums(const KernelArguments& arguments, std::int64_t expert, std::size_t index) const {
    const std::int64_t size = inner_ * width_;
    if (!sums_are_apart()) return out<float>(arguments, index) + expert * size;
    return kernels::workspace_at<float>(arguments, sums_) + static_cast<std::int64_t>(index) * size;
  }

  void begin(const KernelArguments& arguments) const {
    const Element from = element_of(gate_type_);
    convert_(tokens_ * experts_, from, arguments.operands[first_ + 1], Element::f32,
             kernels::workspace_at<float>(arguments, gates_), false, threads_);
    if (pass_ == Pass::weight_gradient) return;
    if (sums_are_apart() || !accumulate_) zero(sums(arguments), tokens_ * width_);
    if (pass_ == Pass::input_gradient && !accumulate_) {
      std::memset(arguments.results[1], 0, static_cast<std::size_t>(tokens_ * experts_) * size_of(gate_gradient_type_));
    }
  }

  void zero(float* values, std::int64_t count) const {
    kernels::parallel_ranges(
        threads_, count, [=](std::int64_t begin, std::int64_t end) { std::fill(values + begin, values + end, 0.0F); });
  }

  void begin_expert(const KernelArguments& arguments, std::int64_t expert) const {
    if (pass_ != Pass::weight_gradient || (!sums_are_apart() && accumulate_)) return;
    for (const std::size_t index : {0U, 1U, 2U}) zero(weight_sums(arguments, expert, index), inner_ * width_);
  }

  void end_expert(const KernelArguments& arguments, std::int64_t expert) const {
    if (pass_ != Pass::weight_gradient || !sums_are_apart()) return;
    const std::int64_t size = inner_ * width_;
    for (const std::size_t index : {0U, 1U, 2U}) {
      char* to = out<char>(arguments, index) + expert * size * static_cast<std::int64_t>(size_of(result_type_));
      convert_(size, Element::f32, weight_sums(arguments, expert, index), element_of(result_type_), to, accumulate_,
               threads_);
    }
  }

  /// An expert's matrix: gate, up or down.
  [[nodiscard]] const T* matrix(const KernelArguments& arguments, std::int64_t expert, std::size_t index) const {
    return in<T>(arguments, first_ + 2 + index) + expert * inner_ * width_;
  }

  /// Copies the rows of a chunk's tokens, and zeros behind them.
  void gather(const KernelArguments& arguments, std::size_t operand, const Chunk& chunk, T* to) const {
    const T* from = in<T>(arguments, operand);
    for_each_row(threads_, chunk.rows, width_, [&, width = width_](std::int64_t row) {
      T* place = to + row * width;
      if (row < chunk.count) {
        std::copy_n(from + chunk.tokens[row] * width, width, place);
      } else {
        std::memset(static_cast<void*>(place), 0, static_cast<std::size_t>(width) * sizeof(T));
      }
    });
  }

  void compute(const Chunk& chunk, const KernelArguments& arguments) const {
    T* x = kernels::workspace_at<T>(arguments, x_);
    T* pre = kernels::workspace_at<T>(arguments, pre_);
    T* up = kernels::workspace_at<T>(arguments, up_);
    void* scratch = kernels::workspace_at<char>(arguments, product_);
    gather(arguments, first_, chunk, x);
    hidden_.run(chunk.rows, x, matrix(arguments, chunk.expert, 0), pre, scratch);
    hidden_.run(chunk.rows, x, matrix(arguments, chunk.expert, 1), up, scratch);
    T* act = kernels::workspace_at<T>(arguments, act_);
    activation_.gated_forward(chunk.rows * inner_, pre, up, act, threads_);
    if (pass_ == Pass::forward) {
      float* y = kernels::workspace_at<float>(arguments, y_);
      out_.run(chunk.rows, act, matrix(arguments, chunk.expert, 2), y, scratch);
      return add_rows(chunk, arguments, y, true);
    }
    differentiate(chunk, arguments, scratch);
  }

  /// Adds the rows of a chunk to those of its tokens, times their gates if `scaled`.
  void add_rows(const Chunk& chunk, const KernelArguments& arguments, const float* from, bool scaled) const {
    float* to = sums(arguments);
    const float* gates = kernels::workspace_at<float>(arguments, gates_) + chunk.expert;
    for_each_row(threads_, chunk.count, width_, [&, width = width_](std::int64_t row) {
      const std::int64_t token = chunk.tokens[row];
      const float factor = scaled ? gates[token * experts_] : 1.0F;
      for (std::int64_t c = 0; c < width; ++c) to[token * width + c] += factor * from[row * width + c];
    });
  }

  void differentiate(const Chunk& chunk, const KernelArguments& arguments, void* scratch) const {
    T* dy = kernels::workspace_at<T>(arguments, dy_);
    T* act = kernels::workspace_at<T>(arguments, act_);
    T* d_act = kernels::workspace_at<T>(arguments, d_act_);
    T* d_pre = kernels::workspace_at<T>(arguments, d_pre_);
    T* d_up = kernels::workspace_at<T>(arguments, d_up_);
    gather(arguments, 0, chunk, dy);
    d_hidden_.run(chunk.rows, dy, matrix(arguments, chunk.expert, 2), d_act, scratch);
    if (pass_ == Pass::input_gradient) add_gate_gradients(chunk, arguments, act, d_act);
    scale_rows(chunk, arguments, d_act);
    activation_.gated_gradient(chunk.rows * inner_, d_act, kernels::workspace_at<T>(arguments, pre_),
                               kernels::workspace_at<T>(arguments, up_), d_pre, d_up, false, threads_);
    if (pass_ == Pass::input_gradient) {
      float* dx = kernels::workspace_at<float>(arguments, y_);
      out_.run(chunk.rows, d_pre, matrix(arguments, chunk.expert, 0), dx, scratch);
      more_out_.run(chunk.rows, d_up, matrix(arguments, chunk.expert, 1), dx, scratch);
      return add_rows(chunk, arguments, dx, false);
    }
    const T* x = kernels::workspace_at<T>(arguments, x_);
    scale_rows(chunk, arguments, act);
    d_wide_.run(chunk.rows, d_pre, x, weight_sums(arguments, chunk.expert, 0), scratch);
    d_wide_.run(chunk.rows, d_up, x, weight_sums(arguments, chunk.expert, 1), scratch);
    d_narrow_.run(chunk.rows, dy, act, weight_sums(arguments, chunk.expert, 2), scratch);
  }

  /// Multiplies the inner rows of a chunk by their tokens' gates.
  void scale_rows(const Chunk& chunk, const KernelArguments& arguments, T* values) const {
    const float* gates = kernels::workspace_at<float>(arguments, gates_) + chunk.expert;
    for_each_row(threads_, chunk.count, inner_, [&, inner = inner_](std::int64_t row) {
      const float gate = gates[chunk.tokens[row] * experts_];
      for (std::int64_t f = 0; f < inner; ++f) assign(values[row * inner + f], gate * widen(values[row * inner + f]));
    });
  }

  void add_gate_gradients(const Chunk& chunk, const KernelArguments& arguments, const T* act, const T* d_act) const {
    with_element(gate_gradient_type_, [&]<class G>() {
      G* gradients = out<G>(arguments, 1) + chunk.expert;
      for_each_row(threads_, chunk.count, inner_, [&, inner = inner_](std::int64_t row) {
        // Several sums, so that the compiler may compute them together.
        std::array<float, 16> sums{};
        for (std::int64_t f = 0; f < inner; ++f) {
          sums[static_cast<std::size_t>(f % 16)] += widen(act[row * inner + f]) * widen(d_act[row * inner + f]);
        }
        float sum = 0;
        for (const float each : sums) sum += each;
        store_value(gradients[chunk.tokens[row] * experts_], sum, accumulate_);
      });
    });
  }

  Pass pass_;
  std::size_t first_;  // the operand x
  int threads_;
  bool accumulate_;
  std::int64_t tokens_;
  std::int64_t width_;
  std::int64_t experts_;
  std::int64_t inner_;
  DType gate_type_;
  DType result_type_;
  DType gate_gradient_type_;
  ActivationKernels<T> activation_;
  decltype(ConversionKernels::convert) convert_;
  ChunkProducts hidden_;
  ChunkProducts out_;
  ChunkProducts more_out_;
  ChunkProducts d_hidden_;
  ChunkProducts d_wide_;
  ChunkProducts d_narrow_;
  kernels::WorkspacePlan workspace_;
  std::int64_t gates_ = 0;
  std::int64_t chosen_ = 0;
  std::int64_t x_ = 0;
  std::int64_t dy_ = 0;
  std::int64_t pre_ = 0;
  std::int64_t up_ = 0;
  std::int64_t act_ = 0;
  std::int64_t d_act_ = 0;
  std::int64_t d_pre_ = 0;
  std::int64_t d_up_ = 0;
  std::int64_t y_ = 0;
  std::int64_t sums_ = 0;
  std::int64_t product_ = 0;
};

template <Pass pass>
constexpr auto kExperts = []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
  return devices::prepared<ExpertsKernel<T>>(op, environment, pass);
};

}  // namespace

void register_experts(Registration& registration) {
  add(registration, {"experts", "trttt", "t", true, unsupported_activation}, kExperts<Pass::forward>);
  add(registration, {"experts_input_gradient", "ttrttt", "tr", true, unsupported_activation},
      kExperts<Pass::input_gradient>);
  add(registration, {"experts_weight_gradient", "ttrttt", "rrr", true, unsupported_activation},
      kExperts<Pass::weight_gradient>);
}

}  // namespace strata::cpu
