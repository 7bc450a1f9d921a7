#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "checkpoint/copy_ring.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Pieces of elements of 8, 4 and 2 bytes. Buffer i begins with i elements that no piece has.
std::vector<RankPiece> pieces() {
  return {{{"a", DType::f64, {5}}, {0, 0, 5}},
          {{"b", DType::f32, {7, 3}}, {1, 1, 21}},
          {{"c", DType::f32, {1}}, {2, 2, 1}},
          {{"d", DType::bf16, {33}}, {3, 3, 33}}};
}

/// The bytes of a slice of a buffer: its number, and the positions of the bytes.
std::string bytes_of(const BufferSlice& slice) {
  const std::size_t size = size_of(pieces()[static_cast<std::size_t>(slice.buffer)].tensor.dtype);
  std::string bytes;
  for (std::size_t i = 0; i < static_cast<std::size_t>(slice.elements) * size; ++i) {
    bytes += static_cast<char>(100 * slice.buffer + static_cast<int>(static_cast<std::size_t>(slice.begin) * size + i));
  }
  return bytes;
}

void read(const BufferSlice& slice, void* host) {
  const std::string bytes = bytes_of(slice);
  std::memcpy(host, bytes.data(), bytes.size());
}

std::string all_bytes() {
  std::string bytes;
  for (const RankPiece& piece : pieces()) bytes += bytes_of(piece.source);
  return bytes;
}

CopyRing ring_of(std::int64_t bytes) {
  return {std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes)), bytes, pieces()};
}

std::string take(CopyRing& ring, std::size_t most) {
  const auto bytes = ring.take(most);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Memory that is smaller than a checkpoint is used again and again.
TEST(CopyRing, BytesComeInOrderThroughMemoryOfAnySize) {
  for (const std::int64_t bytes : {8, 16, 24, 64, 200, 256}) {
    for (const std::size_t most : {1, 7, 64}) {
      CopyRing ring = ring_of(bytes);
      for (int pass = 0; pass < 2; ++pass) {
        ring.restart();
        std::string taken;
        std::thread taker([&] {
          while (taken.size() < all_bytes().size()) taken += take(ring, most);
        });
        while (!ring.fill(read)) std::this_thread::yield();
        taker.join();
        ASSERT_EQ(taken, all_bytes()) << bytes << " bytes, " << most << " at once, pass " << pass;
      }
    }
  }
}

TEST(CopyRing, FillingDoesNotWaitIfThereIsRoomForAll) {
  CopyRing ring = ring_of(200);
  EXPECT_TRUE(ring.fill(read));
  CopyRing small = ring_of(64);
  EXPECT_FALSE(small.fill(read));
}

TEST(CopyRing, NeitherSideWaitsForOneThatHasEnded) {
  CopyRing ring = ring_of(64);
  EXPECT_FALSE(ring.fill(read));
  ring.stop_taking();
  EXPECT_TRUE(ring.fill(read));

  CopyRing other = ring_of(64);
  std::string message;
  std::thread taker([&] {
    try {
      (void)other.take(1);
    } catch (const RuntimeError& error) {
      message = error.what();
    }
  });
  other.stop_filling();
  taker.join();
  EXPECT_EQ(message, "the run ended before the checkpoint was copied");
}

}  // namespace
}  // namespace strata::host
