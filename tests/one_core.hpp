#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <functional>
#include <thread>

namespace strata::testing {

/// Calls `work` on a thread that is bound to one core.
inline void on_one_core(const std::function<void()>& work) {
  std::thread([&] {
    cpu_set_t mask;
    ASSERT_EQ(::sched_getaffinity(0, sizeof mask, &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(::sched_setaffinity(0, sizeof mask, &mask), 0);
    work();
  }).join();
}

}  // namespace strata::testing
