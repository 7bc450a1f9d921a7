#include "kernels/optimizer.hpp"

#include "kernels/vector/parallel.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// Calls body(begin, end, weight_decay) for the parts of a range that are in one segment each.
template <class Body>
void each_segment(const UpdatedBucket& bucket, int threads, const Body& body) {
  if (bucket.segment_count == 0) return;
  const DecaySegment* segments = bucket.segments;
  const DecaySegment& last = segments[bucket.segment_count - 1];
  const std::int64_t first = segments[0].begin;
  parallel_elements(threads, last.begin + last.length - first, [&](std::int64_t range_begin, std::int64_t range_end) {
    for (int i = 0; i < bucket.segment_count; ++i) {
      const std::int64_t begin = larger(first + range_begin, segments[i].begin);
      const std::int64_t end = smaller(first + range_end, segments[i].begin + segments[i].length);
      if (begin < end) body(begin, end, segments[i].weight_decay * bucket.weight_decay_factor);
    }
  });
}

/// Accesses whole vectors.
struct WholeVectors {
  template <class T>
  Float read(const T* from) const {
    return load(from);
  }
  template <class T>
  void write(T* to, Float value) const {
    store(to, value);
  }
};

/// Accesses the last elements of a range.
struct FirstElements {
  std::int64_t count;

  template <class T>
  Float read(const T* from) const {
    return load_first(from, count);
  }
  template <class T>
  void write(T* to, Float value) const {
    store_first(to, value, count);
  }
};

/// Stands for a missing rounded copy.
struct NoCopy {};
inline NoCopy operator+(NoCopy copy, std::int64_t /*offset*/) { return copy; }

template <class Access, class T>
void write_copy(const Access& access, T* to, Float value) {
  access.write(to, value);
}
template <class Access>
void write_copy(const Access& /*access*/, NoCopy /*to*/, Float /*value*/) {}

/// Calls body(gradient, rounded) with typed pointers. `rounded` is a NoCopy if there is no copy.
template <class Body>
void with_types(const UpdatedBucket& bucket, const Body& body) {
  with_elements(bucket.gradient_type, bucket.gradient, [&](const auto* gradient) {
    if (bucket.rounded == nullptr) return body(gradient, NoCopy{});
    with_elements(bucket.rounded_type, bucket.rounded, [&](auto* rounded) { body(gradient, rounded); });
  });
}

/// Calls update(access, i, parameters, gradient, weight_decay) -> new parameters for every vector of the bucket. The
/// gradient is scaled and clipped.
template <class Update>
void each_update(const UpdatedBucket& bucket, int threads, const Update& update) {
  float* parameter = bucket.parameter;
  const float scale = bucket.gradient_scale;
  const Float largest = broadcast(bucket.largest_gradient);
  with_types(bucket, [&](const auto* gradient, auto rounded) {
    each_segment(bucket, threads, [&](std::int64_t begin, std::int64_t end, float weight_decay) {
      const auto apply = [&](const auto& access, std::int64_t i) {
        const Float before = access.read(parameter + i);
        const Float scaled = access.read(gradient + i) * scale;
        const Float clipped = maximum(-maximum(-scaled, -largest), -largest);
        const Float after = update(access, i, before, clipped, weight_decay);
        access.write(parameter + i, after);
        write_copy(access, rounded + i, after);
      };
      each_vector(
          begin, end, [&](std::int64_t i) { apply(WholeVectors{}, i); },
          [&](std::int64_t i, std::int64_t n) { apply(FirstElements{n}, i); });
    });
  });
}

void adamw(const AdamWStep& step, const UpdatedBucket& bucket, float* first_moment, float* second_moment, int threads) {
  const float to_first = 1.0F / step.correction1;
  const float to_second = 1.0F / step.correction2;
  each_update(bucket, threads, [=](const auto& access, std::int64_t i, Float p, Float g, float weight_decay) {
    const Float m = multiply_add(access.read(first_moment + i), step.beta1, g * (1.0F - step.beta1));
    const Float v = multiply_add(access.read(second_moment + i), step.beta2, (g * g) * (1.0F - step.beta2));
    const Float direction = (m * to_first) / (square_root(v * to_second) + step.epsilon);
    access.write(first_moment + i, m);
    access.write(second_moment + i, v);
    return multiply_add(multiply_add(p, weight_decay, direction), -step.learning_rate, p);
  });
}

void sgd(const SgdStep& step, const UpdatedBucket& bucket, int threads) {
  each_update(bucket, threads, [=](const auto&, std::int64_t, Float p, Float g, float weight_decay) {
    return multiply_add(multiply_add(p, weight_decay, g), -step.learning_rate, p);
  });
}

void sgd_momentum(const SgdStep& step, const UpdatedBucket& bucket, float* momentum_buffer, int threads) {
  each_update(bucket, threads, [=](const auto& access, std::int64_t i, Float p, Float g, float weight_decay) {
    const Float buffer = multiply_add(access.read(momentum_buffer + i), step.momentum, g);
    access.write(momentum_buffer + i, buffer);
    const Float direction = step.nesterov ? multiply_add(buffer, step.momentum, g) : buffer;
    return multiply_add(multiply_add(p, weight_decay, direction), -step.learning_rate, p);
  });
}

}  // namespace

const OptimizerKernels optimizer_kernels = {adamw, sgd, sgd_momentum};

}  // namespace strata::cpu::STRATA_CPU_TARGET
