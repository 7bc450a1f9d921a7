// The emulator that runs the kernels of the cuda device on the processor.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "language/language.hpp"
#include "language/launch.hpp"
#include "sanitized.hpp"
#include "strata/error.hpp"
#include "strata/half.hpp"
#include "strata/random.hpp"

namespace strata::cuda {
namespace {

using ::testing::HasSubstr;

/// Runs with both orders of threads. A kernel that lacks a barrier passes in one of them at most.
class EmulatedKernel : public ::testing::TestWithParam<emulator::ThreadOrder> {
 protected:
  [[nodiscard]] Stream stream() { return &stream_; }

 private:
  emulator::EmulatedStream stream_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Orders, EmulatedKernel,
                         ::testing::Values(emulator::ThreadOrder::ascending, emulator::ThreadOrder::descending),
                         [](const auto& test) {
                           return test.param == emulator::ThreadOrder::ascending ? "ascending" : "descending";
                         });

std::string message_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const RuntimeError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

__global__ void number_threads(int* numbers) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  const unsigned at = block * threads + static_cast<unsigned>(thread_rank());
  numbers[at] += static_cast<int>(at);
}

TEST_P(EmulatedKernel, RunsEveryThreadOfEveryBlockOnce) {
  std::vector<int> numbers(3 * 2 * 2 * 5 * 3 * 2);
  launch(number_threads, {{3, 2, 2}, {5, 3, 2}}, stream(), numbers.data());
  std::vector<int> expected(numbers.size());
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(numbers, expected);
}

TEST_P(EmulatedKernel, RunsNothingForAnEmptyGrid) {
  int number = 0;
  launch(number_threads, {{0}, {32}}, stream(), &number);
  EXPECT_EQ(number, 0);
}

template <class T>
__global__ void reduce_block(const T* values, T* sums, T* maxima) {
  const T value = values[blockIdx.x * blockDim.x + threadIdx.x];
  // Twice: scratch memory must be free again.
  const T first = block_sum(value);
  const T sum = block_sum(value);
  const T maximum = block_max(value);
  sums[blockIdx.x * blockDim.x + threadIdx.x] = first == sum ? sum : T{0};
  maxima[blockIdx.x * blockDim.x + threadIdx.x] = maximum;
}

template <class T>
void expect_block_reductions(unsigned threads, Stream stream) {
  std::vector<T> values(std::size_t{3} * threads);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i * 37 % 101) - T{50};
  std::vector<T> sums(values.size());
  std::vector<T> maxima(values.size());
  launch(reduce_block<T>, {{3}, {threads}}, stream, values.data(), sums.data(), maxima.data());
  for (std::size_t block = 0; block < 3; ++block) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(block * threads);
    for (std::size_t i = block * threads; i < (block + 1) * threads; ++i) {
      EXPECT_EQ(sums[i], std::accumulate(begin, begin + threads, T{0}));
      EXPECT_EQ(maxima[i], *std::max_element(begin, begin + threads));
    }
  }
}

TEST_P(EmulatedKernel, ReducesOverBlocks) {
  for (const unsigned threads : {32U, 96U, 256U, 1024U}) {
    expect_block_reductions<float>(threads, stream());
    expect_block_reductions<double>(threads, stream());
  }
}

__global__ void keep_not_a_number(float* value) { value[0] = block_max(threadIdx.x == 37 ? NAN : 1.0F); }

TEST_P(EmulatedKernel, KeepsNotANumberInMaxima) {
  float value = 0.0F;
  launch(keep_not_a_number, {{1}, {64}}, stream(), &value);
  EXPECT_TRUE(std::isnan(value));
}

__global__ void shuffle_lanes(int* results) {
  const int lane = static_cast<int>(threadIdx.x);
  results[lane] = __shfl_sync(kFullMask, lane, 5);
  results[32 + lane] = __shfl_sync(kFullMask, lane, 1, 8);
  results[64 + lane] = __shfl_xor_sync(kFullMask, lane, 3);
  results[96 + lane] = __shfl_up_sync(kFullMask, lane, 2, 16);
  results[128 + lane] = static_cast<int>(__ballot_sync(kFullMask, lane % 3 == 0));
}

TEST_P(EmulatedKernel, ShufflesLanes) {
  std::vector<int> results(160);
  launch(shuffle_lanes, {{1}, {32}}, stream(), results.data());
  for (int lane = 0; lane < 32; ++lane) {
    const auto of = [&](int row) { return results[static_cast<std::size_t>(row * 32 + lane)]; };
    EXPECT_EQ(of(0), 5);
    EXPECT_EQ(of(1), lane / 8 * 8 + 1);
    EXPECT_EQ(of(2), lane ^ 3);
    EXPECT_EQ(of(3), lane % 16 < 2 ? lane : lane - 2);
    EXPECT_EQ(static_cast<unsigned>(of(4)), 0x49249249U);
  }
}

/// Reverses a block through static and dynamic shared memory.
__global__ void reverse_block(const float* from, float* to) {
  __shared__ float still[128];
  float* moving = dynamic_shared<float>();
  const unsigned last = blockDim.x - 1;
  still[threadIdx.x] = from[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  moving[threadIdx.x] = still[last - threadIdx.x];
  __syncthreads();
  to[blockIdx.x * blockDim.x + threadIdx.x] = moving[threadIdx.x] + moving[last - threadIdx.x] * 1000.0F;
}

TEST_P(EmulatedKernel, SharesMemory) {
  std::vector<float> from(512);
  std::iota(from.begin(), from.end(), 0.0F);
  std::vector<float> to(512);
  launch(reverse_block, {{4}, {128}, 512}, stream(), from.data(), to.data());
  for (std::size_t i = 0; i < to.size(); ++i) {
    EXPECT_EQ(to[i], from[i / 128 * 128 + 127 - i % 128] + from[i] * 1000.0F);
  }
}

__global__ void read_neighbour_too_early(float* to) {
  float* shared = dynamic_shared<float>();
  shared[threadIdx.x] = 1.0F;
  to[threadIdx.x] = shared[(threadIdx.x + 1) % blockDim.x];
}

TEST_P(EmulatedKernel, ShowsAMissingBarrierAsNotANumber) {
  std::vector<float> to(64);
  launch(read_neighbour_too_early, {{1}, {64}, 256}, stream(), to.data());
  EXPECT_TRUE(std::isnan(to[GetParam() == emulator::ThreadOrder::ascending ? 10 : 63])) << to[63];
}

__global__ void diverge_at_barrier() {
  if (threadIdx.x < 40) __syncthreads();
  if (threadIdx.x >= 40) __syncwarp();
}
__global__ void diverge_at_shuffle(int* to) {
  if (threadIdx.x % 2 == 0) to[threadIdx.x] = __shfl_xor_sync(kFullMask, 1, 2);
  __syncthreads();
}
__global__ void read_ended_lane(int* to) {
  if (threadIdx.x == 7) return;
  to[threadIdx.x] = __shfl_sync(kFullMask, 1, 7);
}
__global__ void name_too_few_lanes(int* to) { to[threadIdx.x] = __shfl_xor_sync(0xFFFFU, 1, 2); }

TEST_P(EmulatedKernel, RefusesDivergence) {
  std::vector<int> to(64);
  EXPECT_THAT(message_of([&] {
                launch(diverge_at_barrier, {{1}, {64}}, stream());
              }),
              HasSubstr("block (0, 0, 0) wait for each other in vain: 40 at __syncthreads, 24 at __syncwarp"));
  EXPECT_THAT(message_of([&] {
                launch(diverge_at_shuffle, {{1}, {64}}, stream(), to.data());
              }),
              HasSubstr("32 at __syncthreads, 32 at a shuffle"));
  EXPECT_THAT(message_of([&] {
                launch(read_ended_lane, {{1}, {32}}, stream(), to.data());
              }),
              HasSubstr("a lane that left the kernel"));
  EXPECT_THAT(message_of([&] {
                launch(name_too_few_lanes, {{1}, {32}}, stream(), to.data());
              }),
              HasSubstr("the mask of a shuffle lacks lanes"));
  // An error does not affect later launches.
  launch(number_threads, {{1}, {64}}, stream(), to.data());
}

__global__ void leave_early(float* sums) {
  if (threadIdx.x >= 48) return;
  __syncthreads();
  sums[threadIdx.x] = warp_reduce<16>(1.0F, Sum{});
}

TEST_P(EmulatedKernel, LetsThreadsLeave) {
  std::vector<float> sums(64);
  launch(leave_early, {{1}, {64}}, stream(), sums.data());
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i], i < 48 ? 16.0F : 0.0F);
}

__global__ void write_behind_shared_memory() { dynamic_shared<char>()[blockDim.x] = 1; }
__global__ void load_unaligned(const float* from, float* to) { store_packed(to, load_packed<float, 4>(from + 1)); }

TEST_P(EmulatedKernel, RefusesWhatAGpuCannot) {
  alignas(16) float values[8] = {};
  EXPECT_THAT(message_of([&] { launch(load_unaligned, {{1}, {1}}, stream(), values, values); }), HasSubstr("16 bytes"));
  EXPECT_THAT(message_of([&] { launch(number_threads, {{1}, {1025}}, stream(), nullptr); }), HasSubstr("1025 threads"));
  EXPECT_THAT(message_of([&] { launch(number_threads, {{1, 65536}, {1}}, stream(), nullptr); }), HasSubstr("65536"));
  EXPECT_THAT(message_of([&] { launch(number_threads, {{1}, {1}, 200000}, stream(), nullptr); }), HasSubstr("200000"));
  if (!testing::kSanitized) {
    EXPECT_THAT(message_of([&] {
                  launch(write_behind_shared_memory, {{1}, {64}, 64}, stream());
                }),
                HasSubstr("wrote behind"));
  }
}

template <class T>
__global__ void convert_pack(const float* from, T* to) {
  Packed<T> pack;
  for (int i = 0; i < kPackedElements<T>; ++i) {
    pack[i] = narrow<T>(from[threadIdx.x * static_cast<unsigned>(kPackedElements<T>) + static_cast<unsigned>(i)]);
  }
  store_packed(to + threadIdx.x * static_cast<unsigned>(kPackedElements<T>), pack);
}

TEST(EmulatedElements, AreRoundedAsTheHostRoundsThem) {
  alignas(16) float from[16];
  for (int i = 0; i < 16; ++i) from[i] = 1.0F / static_cast<float>(3 * i - 7);
  alignas(16) BFloat16 brain[16];
  alignas(16) Float16 half[16];
  launch(convert_pack<BFloat16>, {{1}, {2}}, nullptr, from, brain);
  launch(convert_pack<Float16>, {{1}, {2}}, nullptr, from, half);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(brain[i].bits, to_bf16(from[i]));
    EXPECT_EQ(half[i].bits, to_f16(from[i]));
    EXPECT_EQ(widen(half[i]), from_f16(half[i].bits));
  }
}

TEST(RoughArithmetic, ErrsByAsMuchAsIsAllowed) {
  using emulator::Roughness;
  for (const Roughness roughness : {Roughness::exact, Roughness::mixed, Roughness::high, Roughness::low}) {
    const emulator::RoughArithmetic arithmetic(roughness);
    double exponential = 0;
    double quotient = 0;
    for (int i = -2000; i <= 2000; ++i) {
      const float x = static_cast<float>(i) * 0.0123F + 0.001F;
      const double power = std::exp2(double{x});
      exponential = std::max(exponential, std::abs(emulator::approximate_exp2(x) - power) / power);
      const double exact = 3.0 / x;
      const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
      quotient = std::max(quotient, std::abs(emulator::approximate_quotient(3.0F, x) - exact) / unit);
    }
    const bool is_exact = roughness == Roughness::exact;
    EXPECT_LE(exponential, is_exact ? 0x1p-24 : 0x1p-22);
    EXPECT_LE(quotient, is_exact ? 0.5 : 2.0);
    if (is_exact) continue;
    EXPECT_GE(exponential, 0.9 * 0x1p-22);
    EXPECT_GE(quotient, 1.8);
  }
  EXPECT_EQ(emulator::approximate_quotient(1.0F, 3.0F), 1.0F / 3.0F) << "exact again";
}

TEST(RoughArithmetic, OfMatrixUnitsCutsOffWhatLiesBehindTheLargestTerm) {
  const std::array<double, 3> terms{1.0, 0x1p-24 * 1.5, 0x1p-25 * 1.9};
  EXPECT_EQ(emulator::matrix_unit_sum(terms), 1.0F + 0x1p-23F);
  const emulator::RoughArithmetic arithmetic(emulator::Roughness::mixed);
  EXPECT_EQ(emulator::matrix_unit_sum(terms), 1.0F);
}

TEST(EmulatedElements, DrawTheWordsOfTheDefinition) {
  for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{7}, (std::uint64_t{1} << 36) + 3}) {
    EXPECT_EQ(random_word(0x0123456789ABCDEF, index), random::word(0x0123456789ABCDEF, index));
  }
}

__global__ void copy_through_shared(const float* from, float* to, bool wait) {
  float* shared = dynamic_shared<float>();
  const unsigned at = threadIdx.x * 4;
  copy_async(shared + at, from + at);
  commit_copies();
  copy_async(shared + 128 + at, from + at, threadIdx.x % 2 == 0);
  commit_copies();
  if (wait) wait_copies<1>();
  __syncthreads();
  for (unsigned i = 0; i < 4; ++i) to[at + i] = shared[127 - at - i];
  wait_copies<0>();
  __syncthreads();
  for (unsigned i = 0; i < 4; ++i) to[128 + at + i] = shared[128 + at + i];
}

TEST_P(EmulatedKernel, CopiesBesideTheWorkOfAThread) {
  alignas(16) float from[128];
  std::iota(std::begin(from), std::end(from), 1.0F);
  std::vector<float> to(256);
  launch(copy_through_shared, {{1}, {32}, 1024}, stream(), from, to.data(), true);
  for (std::size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(to[i], from[127 - i]);
    EXPECT_EQ(to[128 + i], i / 4 % 2 == 0 ? from[i] : 0.0F);
  }
  launch(copy_through_shared, {{1}, {32}, 1024}, stream(), from, to.data(), false);
  const bool ascending = GetParam() == emulator::ThreadOrder::ascending;
  EXPECT_TRUE(std::isnan(to[ascending ? 0 : 127])) << "a copy that was not waited for may not be there";
}

}  // namespace
}  // namespace strata::cuda
