// How fast the cpu device's kernels are on the shapes of a GPT-2 training step (6 layers, 6 heads, embed 384, context
// 256, micro-batch 8, byte vocabulary), and what a step made of them takes.
// Usage: cpu_kernels [threads] [repetitions] [portable|avx2|avx512]
// One thread is timed by its processor time, which other programs disturb less than the clock on the wall.
// Each line: best time of one call, calls in a step, rate, and that as a share of the best that this machine does:
// of oneDNN's f32 matrix products for arithmetic, of a plain copy for memory.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernel_library.hpp"
#include "kernels/matrix_product.hpp"

namespace {

using namespace strata::cpu;

constexpr std::int64_t kBatch = 8, kContext = 256, kTokens = kBatch * kContext, kEmbed = 384, kHeads = 6;
constexpr std::int64_t kFfn = 4 * kEmbed, kVocabulary = 256, kLayers = 6, kParameters = 10844160;

class Bench {
 public:
  Bench(int threads, int repetitions) : threads_(threads), repetitions_(repetitions) {}

  double best(const std::function<void()>& call) const {
    double result = 1e9;
    for (int i = 0; i < repetitions_; ++i) {
      const double begin = now();
      call();
      result = std::min(result, now() - begin);
    }
    return result;
  }

  void measure_machine(const ElementwiseKernels& elementwise) {
    std::vector<float> x(1 << 24, 1.0F), y(1 << 24);
    const std::int64_t size = static_cast<std::int64_t>(x.size());
    const double copy = best([&] { elementwise.scale(size, 1.0F, x.data(), y.data(), threads_); });
    bytes_per_second_ = 2.0 * sizeof(float) * static_cast<double>(size) / copy;
    for (const std::int64_t n : {512, 1024, 2048}) {
      MatrixProductShape shape;
      shape.rows = shape.columns = shape.depth = n;
      const MatrixProduct product(shape, threads_);
      const double seconds = best([&] { product.run(x.data(), x.data(), nullptr, y.data()); });
      flops_per_second_ = std::max(flops_per_second_, 2.0 * static_cast<double>(n * n * n) / seconds);
    }
    std::printf("threads %d: %.1f GFLOP/s, copy %.1f GB/s\n\n", threads_, flops_per_second_ * 1e-9,
                bytes_per_second_ * 1e-9);
    std::printf("%-34s %9s %6s %9s %10s %7s\n", "kernel", "ms", "calls", "ms/step", "rate", "share");
  }

  void arithmetic(const char* name, std::int64_t calls, double flops, const std::function<void()>& call) {
    report(name, calls, best(call), flops, flops_per_second_, "GFLOP/s");
  }

  void memory(const char* name, std::int64_t calls, std::int64_t floats, const std::function<void()>& call) {
    report(name, calls, best(call), static_cast<double>(floats) * sizeof(float), bytes_per_second_, "GB/s");
  }

  void total() const {
    std::printf("\nstep of %ld tokens: %.1f ms, %.0f tokens/s\n", static_cast<long>(kTokens), total_ * 1e3,
                static_cast<double>(kTokens) / total_);
  }

  int threads() const { return threads_; }

 private:
  double now() const {
    if (threads_ == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  void report(const char* name, std::int64_t calls, double seconds, double work, double best_rate, const char* unit) {
    const double rate = work / seconds;
    total_ += static_cast<double>(calls) * seconds;
    std::printf("%-34s %9.3f %6ld %9.2f %6.1f %s %5.0f%%\n", name, seconds * 1e3, static_cast<long>(calls),
                static_cast<double>(calls) * seconds * 1e3, rate * 1e-9, unit, 100.0 * rate / best_rate);
  }

  int threads_;
  int repetitions_;
  double flops_per_second_ = 0.0;
  double bytes_per_second_ = 0.0;
  double total_ = 0.0;
};

/// Buffers that are large enough for every kernel's operands, filled with small numbers.
struct Buffers {
  Buffers() {
    for (auto* buffer : {&a, &b, &c, &d, &e, &f, &g}) {
      buffer->resize(kParameters);
      for (std::size_t i = 0; i < buffer->size(); ++i) {
        (*buffer)[i] = static_cast<float>((i * 2654435761U >> 8) % 1000) * 0.002F - 1.0F;
      }
    }
    for (std::int64_t i = 0; i < kTokens; ++i) ids.push_back(static_cast<std::int32_t>(i * 7919 % kVocabulary));
    workspace.resize(1 << 24);
  }
  std::vector<float> a, b, c, d, e, f, g;
  std::vector<std::int32_t> ids;
  std::vector<char> workspace;
  void* aligned() {
    return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(workspace.data()) + 63) & ~std::uintptr_t{63});
  }
};

void product(Bench& bench, Buffers& at, const char* name, std::int64_t calls, std::int64_t rows, std::int64_t columns,
             std::int64_t depth, bool transpose_a, bool transpose_b, bool accumulate, bool bias) {
  MatrixProductShape shape;
  shape.rows = rows;
  shape.columns = columns;
  shape.depth = depth;
  shape.transpose_a = transpose_a;
  shape.transpose_b = transpose_b;
  shape.accumulate = accumulate;
  shape.bias = bias;
  const MatrixProduct prepared(shape, bench.threads());
  bench.arithmetic(name, calls, 2.0 * static_cast<double>(rows * columns * depth),
                   [&] { prepared.run(at.a.data(), at.b.data(), at.c.data(), at.d.data()); });
}

/// One linear layer: forward, gradient of its input, gradient of its weight.
void linear(Bench& bench, Buffers& at, const char* name, std::int64_t calls, std::int64_t in, std::int64_t out,
            bool bias) {
  const std::string label = name;
  product(bench, at, (label + " forward").c_str(), calls, kTokens, out, in, false, false, false, bias);
  product(bench, at, (label + " input gradient").c_str(), calls, kTokens, in, out, false, true, false, false);
  product(bench, at, (label + " weight gradient").c_str(), calls, in, out, kTokens, true, false, true, false);
}

void head(Bench& bench, Buffers& at) {
  product(bench, at, "head forward", 1, kTokens, kVocabulary, kEmbed, false, true, false, false);
  product(bench, at, "head input gradient", 1, kTokens, kEmbed, kVocabulary, false, false, false, false);
  product(bench, at, "head weight gradient", 1, kVocabulary, kEmbed, kTokens, true, false, true, false);
}

void attention(Bench& bench, Buffers& at, const AttentionKernels& kernels) {
  AttentionShape shape;
  shape.batch = kBatch;
  shape.sequence = shape.kv_sequence = shape.global_sequence = shape.global_kv_sequence = kContext;
  shape.heads = shape.kv_heads = shape.global_heads = kHeads;
  shape.head_dim = kEmbed / kHeads;
  shape.scale = 0.125F;
  shape.query_strides = shape.key_strides = shape.value_strides = shape.output_strides =
      contiguous_strides(kContext, kHeads, shape.head_dim);
  const double pairs = static_cast<double>(kBatch * kHeads * kContext * (kContext + 1) / 2);
  const double flops = pairs * static_cast<double>(4 * shape.head_dim);
  std::vector<float> lse(static_cast<std::size_t>(kTokens * kHeads));
  const auto forward = [&] {
    kernels.forward(shape, at.a.data(), at.b.data(), at.c.data(), at.d.data(), lse.data(), at.aligned(),
                    bench.threads());
  };
  const auto gradient = [&] {
    kernels.gradient(shape, at.a.data(), at.b.data(), at.c.data(), at.d.data(), lse.data(), at.e.data(), at.f.data(),
                     at.g.data(), at.g.data() + kTokens * kEmbed, at.aligned(), bench.threads());
  };
  bench.arithmetic("attention", kLayers, flops, forward);
  bench.arithmetic("attention gradient", kLayers, 2.5 * flops, gradient);
  shape.dropout = {0.1, 12345};
  bench.arithmetic("attention, dropout 0.1", 0, flops, forward);
  bench.arithmetic("attention gradient, dropout 0.1", 0, 2.5 * flops, gradient);
}

void layer_norm(Bench& bench, Buffers& at, const LayerNormKernels& kernels) {
  constexpr std::int64_t kSize = kTokens * kEmbed, kCalls = 2 * kLayers + 1;
  float* mean = at.g.data();
  float* inverse_std = at.g.data() + kTokens;
  bench.memory("layer_norm", kCalls, 2 * kSize, [&] {
    kernels.forward(kTokens, kEmbed, 1e-5F, at.a.data(), at.b.data(), at.c.data(), at.d.data(), mean, inverse_std,
                    bench.threads());
  });
  bench.memory("layer_norm input gradient", kCalls, 3 * kSize, [&] {
    kernels.input_gradient(kTokens, kEmbed, at.d.data(), at.a.data(), at.b.data(), mean, inverse_std, at.e.data(),
                           false, bench.threads());
  });
  bench.memory("layer_norm parameter gradient", kCalls, 2 * kSize, [&] {
    kernels.parameter_gradient(kTokens, kEmbed, at.d.data(), at.a.data(), mean, inverse_std, at.e.data(), true,
                               at.f.data(), true, bench.threads());
  });
}

BroadcastShape bias_shape(std::int64_t columns) {
  BroadcastShape shape;
  shape.count = 2;
  shape.sizes[0] = kTokens;
  shape.sizes[1] = columns;
  shape.present[1] = true;
  return shape;
}

void pointwise(Bench& bench, Buffers& at, const KernelLibrary& kernels) {
  constexpr std::int64_t kWide = kTokens * kFfn, kSize = kTokens * kEmbed;
  const int threads = bench.threads();
  const auto kind = ActivationKind::gelu_tanh;
  bench.memory("bias + gelu (fused)", kLayers, 3 * kWide, [&] {
    kernels.activation.bias_forward(kind, kTokens, kFfn, at.a.data(), at.b.data(), at.c.data(), at.d.data(), threads);
  });
  bench.memory("gelu", 0, 2 * kWide,
               [&] { kernels.activation.forward(kind, kWide, at.a.data(), at.d.data(), threads); });
  bench.memory("gelu gradient", kLayers, 3 * kWide, [&] {
    kernels.activation.gradient(kind, kWide, at.b.data(), at.a.data(), at.d.data(), false, threads);
  });
  const IndexedDim dims[] = {{kBatch, kBatch, {}}, {kContext, kContext, {}}, {kEmbed, kEmbed, {}}};
  DropoutSettings none, some{0.1, 12345};
  const auto residual = [&](const DropoutSettings& settings) {
    kernels.dropout.bias_add(settings, dims, 3, at.a.data(), at.b.data(), at.c.data(), at.d.data(), threads);
  };
  bench.memory("bias + residual (fused)", 2 * kLayers, 3 * kSize, [&] { residual(none); });
  bench.memory("bias + dropout 0.1 + residual", 0, 3 * kSize, [&] { residual(some); });
  bench.memory("dropout 0.1", 0, 2 * kSize,
               [&] { kernels.dropout.forward(some, dims, 3, at.a.data(), at.d.data(), false, threads); });
  bench.memory("add (gradients of the residual)", 2 * kLayers + 1, 3 * kSize,
               [&] { kernels.elementwise.add(kSize, at.a.data(), at.b.data(), at.d.data(), threads); });
  bench.memory("add bias [tokens, ffn]", 0, 2 * kWide, [&] {
    kernels.elementwise.add_broadcast(bias_shape(kFfn), at.a.data(), at.b.data(), at.d.data(), threads);
  });
  bench.memory("bias gradient [ffn]", kLayers, kWide,
               [&] { kernels.reduce.sum(bias_shape(kFfn), at.a.data(), at.d.data(), true, threads); });
  bench.memory("bias gradient [3 embed]", kLayers, 3 * kSize,
               [&] { kernels.reduce.sum(bias_shape(3 * kEmbed), at.a.data(), at.d.data(), true, threads); });
  bench.memory("bias gradient [embed]", 2 * kLayers, kSize,
               [&] { kernels.reduce.sum(bias_shape(kEmbed), at.a.data(), at.d.data(), true, threads); });
}

void ends(Bench& bench, Buffers& at, const KernelLibrary& kernels) {
  constexpr std::int64_t kSize = kTokens * kEmbed, kLogits = kTokens * kVocabulary;
  const int threads = bench.threads();
  const IndexMap whole;
  bench.memory("embedding", 1, 2 * kSize, [&] {
    kernels.embedding.forward(kTokens, kVocabulary, kEmbed, whole, at.a.data(), at.ids.data(), at.d.data(), threads);
  });
  bench.memory("embedding gradient", 1, 2 * kSize, [&] {
    kernels.embedding.gradient(kTokens, kVocabulary, kEmbed, whole, at.a.data(), at.ids.data(), at.d.data(), true,
                               threads);
  });
  bench.memory("row_max", 1, kLogits,
               [&] { kernels.cross_entropy.row_max(kTokens, kVocabulary, at.a.data(), at.b.data(), threads); });
  bench.memory("sum_exponentials", 1, kLogits, [&] {
    kernels.cross_entropy.sum_exponentials(kTokens, kVocabulary, at.a.data(), at.b.data(), at.c.data(), threads);
  });
  bench.memory("cross_entropy_gradient", 1, 2 * kLogits, [&] {
    kernels.cross_entropy.gradient(kTokens, kVocabulary, whole, at.a.data(), at.b.data(), at.ids.data(), at.d.data(),
                                   threads);
  });
}

void update(Bench& bench, Buffers& at, const KernelLibrary& kernels) {
  const int threads = bench.threads();
  const DecaySegment segments[] = {{0, kParameters, 0.1F}};
  const AdamWStep step{1e-3F, 0.9F, 0.95F, 1e-8F, 0.1F, 0.05F, 1.0F};
  for (auto& value : at.g) value = value * value;
  bench.memory("sum_of_squares", 1, kParameters,
               [&] { at.f[0] = static_cast<float>(kernels.reduce.sum_of_squares(kParameters, at.a.data(), threads)); });
  bench.memory("adamw", 1, 7 * kParameters, [&] {
    kernels.optimizer.adamw(step, segments, 1, at.d.data(), at.a.data(), at.e.data(), at.g.data(), threads);
  });
  bench.memory("zero gradients", 1, kParameters,
               [&] { kernels.elementwise.fill(kParameters, 0.0F, at.e.data(), threads); });
  std::vector<std::uint16_t> half(kParameters);
  bench.memory("cast to bf16", 0, kParameters + kParameters / 2,
               [&] { kernels.cast.f32_to_bf16(kParameters, at.a.data(), half.data(), threads); });
}

InstructionSet chosen(const char* wanted) {
  for (const auto set : {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512}) {
    if (wanted != nullptr && std::strcmp(wanted, name(set)) == 0 && is_supported(set)) return set;
  }
  return best_instruction_set();
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::max(1, std::atoi(arguments[1])) : 2;
  const int repetitions = count > 2 ? std::max(1, std::atoi(arguments[2])) : 20;
  const KernelLibrary& kernels = kernel_library(chosen(count > 3 ? arguments[3] : nullptr));
  std::printf("instruction set %s\n", name(kernels.instruction_set));
  Bench bench(threads, repetitions);
  Buffers buffers;
  bench.measure_machine(kernels.elementwise);
  linear(bench, buffers, "qkv", kLayers, kEmbed, 3 * kEmbed, true);
  linear(bench, buffers, "projection", kLayers, kEmbed, kEmbed, false);
  linear(bench, buffers, "up", kLayers, kEmbed, kFfn, false);
  linear(bench, buffers, "down", kLayers, kFfn, kEmbed, false);
  head(bench, buffers);
  attention(bench, buffers, kernels.attention);
  layer_norm(bench, buffers, kernels.layer_norm);
  pointwise(bench, buffers, kernels);
  ends(bench, buffers, kernels);
  update(bench, buffers, kernels);
  bench.total();
  return 0;
}
