#pragma once

#include "kernels/vector/element.hpp"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// Elements below which starting another thread costs more time than it saves.
constexpr std::int64_t kParallelGrain = 16384;

/// Calls body(begin, end) for one range per thread, which together cover [0, count). Ranges are multiples of `unit`.
/// Uses fewer threads if ranges would be shorter than `grain`. Results of bodies must not depend on the division.
template <class Body>
inline void parallel_ranges(int threads, std::int64_t count, std::int64_t unit, std::int64_t grain, const Body& body) {
  const std::int64_t wanted = smaller(threads, count / larger(grain, 1));
#if defined(_OPENMP)
  if (wanted > 1) {
    const std::int64_t length = round_up(divide_up(count, wanted), unit);
#pragma omp parallel num_threads(threads)
    for (std::int64_t i = omp_get_thread_num(); i * length < count; i += omp_get_num_threads()) {
      body(i * length, smaller(count, (i + 1) * length));
    }
    return;
  }
#endif
  static_cast<void>(wanted);
  static_cast<void>(unit);
  if (count > 0) body(std::int64_t{0}, count);
}

/// parallel_ranges() for elements of a flat buffer.
template <class Body>
inline void parallel_elements(int threads, std::int64_t size, const Body& body) {
  parallel_ranges(threads, size, 64, kParallelGrain, body);
}

/// parallel_ranges() for rows of `columns` elements.
template <class Body>
inline void parallel_rows(int threads, std::int64_t rows, std::int64_t columns, const Body& body) {
  parallel_ranges(threads, rows, 1, divide_up(kParallelGrain, larger(columns, 1)), body);
}

/// Calls body(task, thread) for every task of [0, count). Threads take tasks one at a time, in ascending order.
template <class Body>
inline void parallel_tasks(int threads, std::int64_t count, const Body& body) {
#if defined(_OPENMP)
  if (threads > 1 && count > 1) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (std::int64_t task = 0; task < count; ++task) body(task, omp_get_thread_num());
    return;
  }
#endif
  static_cast<void>(threads);
  for (std::int64_t task = 0; task < count; ++task) body(task, 0);
}

/// Calls body(i, lanes) for the vectors that begin at i, of which the last one may be partial.
template <class Body>
inline void each_vector(std::int64_t begin, std::int64_t end, const Body& body) {
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) body(i, AllLanes{});
  if (i < end) body(i, FirstLanes{end - i});
}

/// each_vector() of the ranges of all threads.
template <class Body>
inline void parallel_vectors(int threads, std::int64_t size, const Body& body) {
  parallel_elements(threads, size, [&](std::int64_t begin, std::int64_t end) { each_vector(begin, end, body); });
}

/// z[i] = f(x[i]) for i in [begin, end).
template <class X, class Z, class Function>
inline void map_range(std::int64_t begin, std::int64_t end, const X* x, Z* z, const Function& f) {
  each_vector(begin, end, [&](std::int64_t i, auto lanes) { store(z + i, f(load(x + i, lanes)), lanes); });
}

/// z[i] = f(x[i], y[i]) for i in [begin, end).
template <class X, class Y, class Z, class Function>
inline void map_range(std::int64_t begin, std::int64_t end, const X* x, const Y* y, Z* z, const Function& f) {
  each_vector(begin, end,
              [&](std::int64_t i, auto lanes) { store(z + i, f(load(x + i, lanes), load(y + i, lanes)), lanes); });
}

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
