// Measures the matrix-multiply rate of oneDNN on this machine, the upper bound of training speed.
// Usage: OMP_NUM_THREADS=2 matmul_rate [seconds per shape] [f32|bf16]. Prints one JSON line per shape and the best
// last.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace {

struct Shape {
  dnnl::memory::dim m, k, n;
};

// Cubes, where the rate peaks, and a transformer's own shapes (tokens x embed x ffn).
constexpr Shape kShapes[] = {{1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 1024, 4096}, {2048, 384, 1536}};

void fill(dnnl::memory& memory) {
  const std::size_t size = memory.get_desc().get_size();
  if (memory.get_desc().data_type() == dnnl::memory::data_type::f32) {
    auto* values = static_cast<float*>(memory.get_data_handle());
    for (std::size_t i = 0; i < size / sizeof *values; ++i) values[i] = static_cast<float>(i % 17) * 0.0625F - 0.5F;
    return;
  }
  auto* bits = static_cast<std::uint16_t*>(memory.get_data_handle());
  for (std::size_t i = 0; i < size / sizeof *bits; ++i) bits[i] = static_cast<std::uint16_t>(0x3F00U + i % 128);
}

/// Floating-point operations per second of one shape, measured for at least `seconds`. oneDNN chooses every layout.
double measure(const Shape& shape, double seconds, dnnl::memory::data_type type) {
  using dnnl::memory;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto description = [type](memory::dim rows, memory::dim columns) {
    return memory::desc({rows, columns}, type, memory::format_tag::any);
  };
  const dnnl::matmul::primitive_desc primitive(
      {description(shape.m, shape.k), description(shape.k, shape.n), description(shape.m, shape.n)}, engine);
  memory source(primitive.src_desc(), engine);
  memory weights(primitive.weights_desc(), engine);
  memory result(primitive.dst_desc(), engine);
  fill(source);
  fill(weights);
  const dnnl::matmul matmul(primitive);
  const std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, result}};

  const auto run = [&] {
    matmul.execute(stream, arguments);
    stream.wait();
  };
  for (int i = 0; i < 3; ++i) run();

  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  double elapsed = 0.0;
  int count = 0;
  do {
    run();
    ++count;
    elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (elapsed < seconds);
  return 2.0 * static_cast<double>(shape.m * shape.k * shape.n) * count / elapsed;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
  const bool is_bf16 = argc > 2 && std::strcmp(argv[2], "bf16") == 0;
  const auto type = is_bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  double best = 0.0;
  for (const Shape& shape : kShapes) {
    const double rate = measure(shape, seconds, type);
    best = rate > best ? rate : best;
    std::cout << R"({"m":)" << shape.m << R"(,"k":)" << shape.k << R"(,"n":)" << shape.n << R"(,"flops_per_second":)"
              << rate << "}\n";
  }
  std::cout << R"({"best_flops_per_second":)" << best << "}\n";
  return 0;
}
