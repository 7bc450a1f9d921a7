#include "kernels/optimizer.hpp"

#include "kernels/vector/parallel.hpp"
#include "kernels/vector/target.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// body(begin, end, weight_decay) for the parts of a range that lie in one segment each.
template <class Body>
void each_segment(const DecaySegment* segments, int count, int threads, const Body& body) {
  if (count == 0) return;
  const std::int64_t first = segments[0].begin;
  const std::int64_t size = segments[count - 1].begin + segments[count - 1].length - first;
  parallel_elements(threads, size, [=](std::int64_t range_begin, std::int64_t range_end) {
    for (int i = 0; i < count; ++i) {
      const std::int64_t begin = larger(first + range_begin, segments[i].begin);
      const std::int64_t end = smaller(first + range_end, segments[i].begin + segments[i].length);
      if (begin < end) body(begin, end, segments[i].weight_decay);
    }
  });
}

/// update(i, load, store) for each vector: whole ones and the last, partial one.
template <class Update>
void each_update(std::int64_t begin, std::int64_t end, const Update& update) {
  each_vector(
      begin, end,
      [&](std::int64_t i) {
        update(
            i, [](const float* from) { return load(from); }, [](float* to, Float value) { store(to, value); });
      },
      [&](std::int64_t i, std::int64_t n) {
        update(
            i, [n](const float* from) { return load_first(from, n); },
            [n](float* to, Float value) { store_first(to, value, n); });
      });
}

void adamw(const AdamWStep& step, const DecaySegment* segments, int segment_count, float* parameter,
           const float* gradient, float* first_moment, float* second_moment, int threads) {
  const float to_first = 1.0F / step.correction1;
  const float to_second = 1.0F / step.correction2;
  each_segment(segments, segment_count, threads, [=](std::int64_t begin, std::int64_t end, float weight_decay) {
    each_update(begin, end, [=](std::int64_t i, const auto& read, const auto& write) {
      const Float g = read(gradient + i) * step.gradient_scale;
      const Float m = multiply_add(read(first_moment + i), step.beta1, g * (1.0F - step.beta1));
      const Float v = multiply_add(read(second_moment + i), step.beta2, (g * g) * (1.0F - step.beta2));
      const Float p = read(parameter + i);
      const Float direction = (m * to_first) / (square_root(v * to_second) + step.epsilon);
      write(first_moment + i, m);
      write(second_moment + i, v);
      write(parameter + i, multiply_add(multiply_add(p, weight_decay, direction), -step.learning_rate, p));
    });
  });
}

void sgd(const SgdStep& step, const DecaySegment* segments, int segment_count, float* parameter, const float* gradient,
         float* momentum_buffer, int threads) {
  each_segment(segments, segment_count, threads, [=](std::int64_t begin, std::int64_t end, float weight_decay) {
    each_update(begin, end, [=](std::int64_t i, const auto& read, const auto& write) {
      Float buffer = read(gradient + i) * step.gradient_scale;
      if (momentum_buffer != nullptr) {
        buffer = multiply_add(read(momentum_buffer + i), step.momentum, buffer);
        write(momentum_buffer + i, buffer);
      }
      const Float p = read(parameter + i);
      write(parameter + i, multiply_add(multiply_add(p, weight_decay, buffer), -step.learning_rate, p));
    });
  });
}

}  // namespace

const OptimizerKernels optimizer_kernels = {adamw, sgd};

}  // namespace strata::cpu::STRATA_CPU_TARGET
