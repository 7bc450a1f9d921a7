// Measures the cpu device's kernels on the shapes of a GPT-2 training step (6 layers, 6 heads, embed 384, context 256,
// micro-batch 8, byte vocabulary), and the time of a step made of them.
// Usage: cpu_kernels [threads] [repetitions] [portable|avx2|avx512|amx] [f32|bf16|f16]
// One thread is timed by its processor time, which other programs disturb less than wall-clock time.
// Each line shows the best time of one call, the calls in a step, the rate, and the share of this machine's best rate:
// that of oneDNN's matrix products of the type for arithmetic, and that of a plain copy for memory.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/matrix_product.hpp"
#include "kernels/vector_kernels.hpp"
#include "strata/registration.hpp"

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

  void measure_machine(InstructionSet set, Element element) {
    std::vector<float> x(1 << 24, 1.0F), y(1 << 24);
    const std::int64_t size = static_cast<std::int64_t>(x.size());
    const double copy = best([&] { elementwise_kernels(set).f32.scale(size, 1.0F, x.data(), y.data(), threads_); });
    bytes_per_second_ = 2.0 * sizeof(float) * static_cast<double>(size) / copy;
    for (const std::int64_t n : {512, 1024, 2048}) {
      MatrixProductShape shape;
      shape.rows = shape.columns = shape.depth = n;
      shape.element = shape.result = element;
      const MatrixProduct product(shape, threads_);
      std::vector<char> workspace(static_cast<std::size_t>(product.workspace_bytes()));
      const double seconds = best([&] { product.run(x.data(), x.data(), nullptr, y.data(), workspace.data()); });
      flops_per_second_ = std::max(flops_per_second_, 2.0 * static_cast<double>(n * n * n) / seconds);
    }
    std::printf("threads %d: %.1f GFLOP/s, copy %.1f GB/s\n\n", threads_, flops_per_second_ * 1e-9,
                bytes_per_second_ * 1e-9);
    std::printf("%-34s %9s %6s %9s %10s %7s\n", "kernel", "ms", "calls", "ms/step", "rate", "share");
  }

  void arithmetic(const char* name, std::int64_t calls, double flops, const std::function<void()>& call) {
    report(name, calls, best(call), flops, flops_per_second_, "GFLOP/s");
  }

  void memory(const char* name, std::int64_t calls, std::int64_t bytes, const std::function<void()>& call) {
    report(name, calls, best(call), static_cast<double>(bytes), bytes_per_second_, "GB/s");
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

template <class T>
constexpr Element kElement = sizeof(T) == sizeof(float) ? Element::f32 : Element::bf16;
template <>
constexpr Element kElement<Float16> = Element::f16;

template <class T>
constexpr std::int64_t kBytes = static_cast<std::int64_t>(sizeof(T));

/// A buffer with one element per parameter of the model, aligned to a cache line like a run's buffers.
template <class T>
class AlignedBuffer {
 public:
  AlignedBuffer() : memory_(std::aligned_alloc(64, static_cast<std::size_t>(kParameters) * sizeof(T)), std::free) {
    std::memset(memory_.get(), 0, static_cast<std::size_t>(kParameters) * sizeof(T));
  }
  T* data() { return static_cast<T*>(memory_.get()); }
  T& operator[](std::int64_t i) { return data()[i]; }

 private:
  std::unique_ptr<void, void (*)(void*)> memory_;
};

/// Buffers that are large enough for every kernel's operands, filled with small numbers.
template <class T>
struct Buffers {
  explicit Buffers(InstructionSet set) {
    for (auto* buffer : {&wide, &wide2, &wide3, &wide4}) {
      for (std::int64_t i = 0; i < kParameters; ++i) {
        (*buffer)[i] = static_cast<float>((static_cast<std::uint64_t>(i) * 2654435761U >> 8) % 1000) * 0.002F - 1.0F;
      }
    }
    for (auto* buffer : {&a, &b, &c, &d, &e, &f, &g}) {
      conversion_kernels(set).convert(kParameters, Element::f32, wide.data(), kElement<T>, buffer->data(), false, 1);
    }
    for (std::int64_t i = 0; i < kTokens; ++i) ids.push_back(static_cast<std::int32_t>(i * 7919 % kVocabulary));
    workspace.resize(1 << 24);
  }
  AlignedBuffer<T> a, b, c, d, e, f, g;
  AlignedBuffer<float> wide, wide2, wide3, wide4;
  std::vector<std::int32_t> ids;
  std::vector<char> workspace;
  void* aligned() {
    return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(workspace.data()) + 63) & ~std::uintptr_t{63});
  }
};

/// The parts that the products of one linear layer share.
struct Product {
  std::int64_t rows, columns, depth;
  bool transpose_a = false;
  bool transpose_b = false;
  bool adds_to_f32 = false;
  bool bias = false;
};

template <class T>
void product(Bench& bench, Buffers<T>& at, const std::string& name, std::int64_t calls, const Product& wanted) {
  MatrixProductShape shape;
  shape.rows = wanted.rows;
  shape.columns = wanted.columns;
  shape.depth = wanted.depth;
  shape.transpose_a = wanted.transpose_a;
  shape.transpose_b = wanted.transpose_b;
  shape.accumulate = wanted.adds_to_f32;
  shape.bias = wanted.bias;
  shape.element = kElement<T>;
  shape.result = wanted.adds_to_f32 ? Element::f32 : kElement<T>;
  const MatrixProduct prepared(shape, bench.threads());
  std::vector<char> workspace(static_cast<std::size_t>(prepared.workspace_bytes()));
  void* result = wanted.adds_to_f32 ? static_cast<void*>(at.wide.data()) : at.d.data();
  bench.arithmetic(name.c_str(), calls, 2.0 * static_cast<double>(shape.rows * shape.columns * shape.depth),
                   [&] { prepared.run(at.a.data(), at.b.data(), at.c.data(), result, workspace.data()); });
}

/// One linear layer: forward, gradient of its input, gradient of its weight.
template <class T>
void linear(Bench& bench, Buffers<T>& at, const std::string& name, std::int64_t calls, std::int64_t in,
            std::int64_t out, bool bias) {
  product(bench, at, name + " forward", calls, {.rows = kTokens, .columns = out, .depth = in, .bias = bias});
  product(bench, at, name + " input gradient", calls,
          {.rows = kTokens, .columns = in, .depth = out, .transpose_b = true});
  product(bench, at, name + " weight gradient", calls,
          {.rows = in, .columns = out, .depth = kTokens, .transpose_a = true, .adds_to_f32 = true});
}

template <class T>
void head(Bench& bench, Buffers<T>& at) {
  product(bench, at, "head forward", 1,
          {.rows = kTokens, .columns = kVocabulary, .depth = kEmbed, .transpose_b = true});
  product(bench, at, "head input gradient", 1, {.rows = kTokens, .columns = kEmbed, .depth = kVocabulary});
  product(bench, at, "head weight gradient", 1,
          {.rows = kVocabulary, .columns = kEmbed, .depth = kTokens, .transpose_a = true, .adds_to_f32 = true});
}

template <class T>
void attention(Bench& bench, Buffers<T>& at, const AttentionKernels<T>& kernels) {
  AttentionShape shape;
  shape.batch = kBatch;
  shape.sequence = shape.kv_sequence = shape.global_sequence = shape.global_kv_sequence = kContext;
  shape.heads = shape.kv_heads = shape.global_heads = kHeads;
  shape.head_dim = kEmbed / kHeads;
  shape.scale = 0.125F;
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

template <class T>
void layer_norm(Bench& bench, Buffers<T>& at, const NormKernels<T>& kernels) {
  constexpr std::int64_t kSize = kTokens * kEmbed, kCalls = 2 * kLayers + 1;
  float* mean = at.wide3.data();
  float* inverse_std = at.wide3.data() + kTokens;
  const float* gain = at.wide.data();
  const float* bias = at.wide2.data();
  bench.memory("layer_norm", kCalls, 2 * kSize * kBytes<T>, [&] {
    kernels.forward(kTokens, kEmbed, 1e-5F, at.a.data(), gain, bias, at.d.data(), mean, inverse_std, bench.threads());
  });
  bench.memory("layer_norm input gradient", kCalls, 3 * kSize * kBytes<T>, [&] {
    kernels.input_gradient(kTokens, kEmbed, at.d.data(), at.a.data(), gain, mean, inverse_std, at.e.data(), false,
                           bench.threads());
  });
  bench.memory("layer_norm parameter gradient", kCalls, 2 * kSize * kBytes<T>, [&] {
    kernels.parameter_gradient(kTokens, kEmbed, at.d.data(), at.a.data(), mean, inverse_std, at.wide4.data(),
                               at.wide4.data() + kEmbed, true, bench.threads());
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

const ByElement<ActivationKernels>& gelu(InstructionSet set) {
  const ActivationTable& table = activation_kernels(set);
  return std::find_if(table.rows, table.rows + table.count,
                      [](const NamedActivation& each) { return std::strcmp(each.kind, "gelu_tanh") == 0; })
      ->kernels;
}

template <class T>
void pointwise(Bench& bench, Buffers<T>& at, InstructionSet set) {
  constexpr std::int64_t kWide = kTokens * kFfn * kBytes<T>, kSize = kTokens * kEmbed * kBytes<T>;
  const int threads = bench.threads();
  const ActivationKernels<T>& activation = gelu(set).of<T>();
  const DropoutKernels<T>& dropout = dropout_kernels(set).of<T>();
  const ElementwiseKernels<T>& elementwise = elementwise_kernels(set).of<T>();
  const ReduceKernels<T>& reduce = reduce_kernels(set).of<T>();
  bench.memory("gelu", kLayers, 2 * kWide,
               [&] { activation.forward(kTokens * kFfn, at.a.data(), at.d.data(), threads); });
  bench.memory("gelu gradient", kLayers, 3 * kWide,
               [&] { activation.gradient(kTokens * kFfn, at.b.data(), at.a.data(), at.d.data(), false, threads); });
  const IndexedDim dims[] = {{kBatch, kBatch, {}}, {kContext, kContext, {}}, {kEmbed, kEmbed, {}}};
  const DropoutSettings some{0.1, 12345};
  const auto drop = [&](const T* residual) {
    dropout.forward(some, dims, 3, at.a.data(), residual, at.d.data(), false, threads);
  };
  bench.memory("dropout 0.1 + residual", 2 * kLayers, 3 * kSize, [&] { drop(at.c.data()); });
  bench.memory("dropout 0.1", 0, 2 * kSize, [&] { drop(nullptr); });
  bench.memory("add (gradients of the residual)", 2 * kLayers + 1, 3 * kSize,
               [&] { elementwise.add(kTokens * kEmbed, at.a.data(), at.b.data(), at.d.data(), threads); });
  bench.memory("add bias [tokens, ffn]", 0, 2 * kWide,
               [&] { elementwise.add_broadcast(bias_shape(kFfn), at.a.data(), at.b.data(), at.d.data(), threads); });
  const auto bias_gradient = [&](const char* name, std::int64_t calls, std::int64_t columns) {
    bench.memory(name, calls, kTokens * columns * kBytes<T>,
                 [&] { reduce.sum(bias_shape(columns), at.a.data(), at.wide4.data(), true, threads); });
  };
  bias_gradient("bias gradient [ffn]", kLayers, kFfn);
  bias_gradient("bias gradient [embed]", 5 * kLayers, kEmbed);
}

template <class T>
void ends(Bench& bench, Buffers<T>& at, InstructionSet set) {
  constexpr std::int64_t kSize = kTokens * kEmbed * kBytes<T>, kLogits = kTokens * kVocabulary * kBytes<T>;
  const int threads = bench.threads();
  const EmbeddingKernels<T>& embedding = embedding_kernels(set).of<T>();
  const CrossEntropyKernels<T>& cross_entropy = cross_entropy_kernels(set).of<T>();
  const IndexMap whole;
  float* row = at.wide3.data();
  bench.memory("embedding", 1, 2 * kSize, [&] {
    embedding.forward(kTokens, kVocabulary, kEmbed, whole, at.a.data(), at.ids.data(), at.d.data(), threads);
  });
  bench.memory("embedding gradient", 1, 2 * kSize, [&] {
    embedding.gradient(kTokens, kVocabulary, kEmbed, whole, at.a.data(), at.ids.data(), at.wide4.data(), true, threads);
  });
  bench.memory("row_max", 1, kLogits, [&] { cross_entropy.row_max(kTokens, kVocabulary, at.a.data(), row, threads); });
  bench.memory("sum_exponentials", 1, kLogits,
               [&] { cross_entropy.sum_exponentials(kTokens, kVocabulary, at.a.data(), row, row + kTokens, threads); });
  bench.memory("cross_entropy_gradient", 1, 2 * kLogits, [&] {
    cross_entropy.gradient(kTokens, kVocabulary, whole, at.a.data(), row, at.ids.data(), at.d.data(), threads);
  });
}

/// The update `op` of a bucket as a rank on host memory runs it. The gradient is f32; the values are of type `values`,
/// with a master copy where that is shorter.
strata::PreparedKernel prepared_update(const std::string& op, strata::DType values, std::size_t states, int threads) {
  static strata::OpRegistry ops;
  static strata::KernelRegistry kernels;
  if (kernels.find("adamw_update", "host").empty()) register_core(ops, kernels);
  const strata::OperandDescription full{strata::DType::f32, {"flat"}, {kParameters}};
  strata::OpInstance instance;
  instance.op = op;
  instance.operands = {full, {strata::DType::f64, {}, {}}};
  instance.results.assign(states + (values == strata::DType::f32 ? 1 : 2), full);
  instance.results[0].dtype = values;
  instance.index_maps["flat"] = strata::IndexMap::whole(kParameters);
  instance.attributes = {
      {"beta1", 0.9},      {"beta2", 0.95},       {"epsilon", 1e-8},  {"momentum", 0.9},
      {"nesterov", false}, {"weight_decay", 0.1}, {"lr_factor", 1.0}, {"decay_elements", kParameters}};
  const auto found = kernels.find(op, "host");
  const auto fast = std::find_if(found.begin(), found.end(), [](const strata::RegisteredKernel* each) {
    return each->definition.rank != strata::kReferenceRank;
  });
  return (*fast)->definition.prepare(instance, strata::KernelEnvironment("host", threads));
}

template <class T>
void update(Bench& bench, Buffers<T>& at, InstructionSet set) {
  const int threads = bench.threads();
  for (std::int64_t i = 0; i < kParameters; ++i) at.wide4[i] *= at.wide4[i];
  bench.memory("sum_of_squares", 1, 4 * kParameters, [&] {
    at.wide2[0] = static_cast<float>(reduce_kernels(set).f32.sum_of_squares(kParameters, at.wide.data(), threads));
  });
  constexpr strata::DType kValues = sizeof(T) == sizeof(float)    ? strata::DType::f32
                                    : std::is_same_v<T, BFloat16> ? strata::DType::bf16
                                                                  : strata::DType::f16;
  const bool has_master = kValues != strata::DType::f32;
  const double scale = 1.0;
  const auto measure = [&](const char* name, const std::string& op, std::size_t states, std::int64_t calls) {
    const strata::PreparedKernel kernel = prepared_update(op, kValues, states, threads);
    const void* operands[] = {at.wide.data(), &scale};
    std::vector<void*> results = {at.wide2.data(), at.wide3.data(), at.wide4.data()};
    if (has_master) results.insert(results.begin(), at.a.data());
    const strata::StepContext context{.step = 1, .learning_rate = 1e-3};
    const std::int64_t bytes = 12 + 8 * static_cast<std::int64_t>(states) + (has_master ? kBytes<T> : 0);
    bench.memory(name, calls, bytes * kParameters, [&] {
      kernel.launch({operands, results, nullptr, context, nullptr});
    });
  };
  measure("adamw", "adamw_update", 2, 1);
  measure("sgd with momentum", "sgd_momentum_update", 1, 0);
  measure("sgd without momentum", "sgd_update", 0, 0);
}

InstructionSet chosen(const char* wanted) {
  for (const auto set : {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512, InstructionSet::amx}) {
    if (wanted != nullptr && std::strcmp(wanted, name(set)) == 0 && is_supported(set)) return set;
  }
  return best_instruction_set();
}

template <class T>
void run(Bench& bench, InstructionSet set) {
  Buffers<T> buffers(set);
  bench.measure_machine(set, kElement<T>);
  linear(bench, buffers, "q, k, v, projection", 4 * kLayers, kEmbed, kEmbed, true);
  linear(bench, buffers, "up", kLayers, kEmbed, kFfn, true);
  linear(bench, buffers, "down", kLayers, kFfn, kEmbed, true);
  head(bench, buffers);
  attention(bench, buffers, attention_kernels(set).of<T>());
  layer_norm(bench, buffers, layer_norm_kernels(set).of<T>());
  pointwise(bench, buffers, set);
  ends(bench, buffers, set);
  update(bench, buffers, set);
  bench.total();
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::max(1, std::atoi(arguments[1])) : 2;
  const int repetitions = count > 2 ? std::max(1, std::atoi(arguments[2])) : 20;
  const InstructionSet set = chosen(count > 3 ? arguments[3] : nullptr);
  const std::string element = count > 4 ? arguments[4] : "f32";
  std::printf("instruction set %s, %s\n", name(set), element.c_str());
  Bench bench(threads, repetitions);
  if (element == "bf16") {
    run<BFloat16>(bench, set);
  } else if (element == "f16") {
    run<Float16>(bench, set);
  } else {
    run<float>(bench, set);
  }
  return 0;
}
