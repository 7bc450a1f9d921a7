#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/bytes.hpp"
#include "rendezvous/protocol.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

const std::string kKey(kDigestBytes, 'k');
const std::string kOtherKey(kDigestBytes, 'o');

/// The contents of the frames in `bytes`, and "?" where a frame is refused.
std::string read_all(std::string bytes, const std::string& key = kKey) {
  FrameReader reader(key);
  std::string contents;
  try {
    while (const auto frame = reader.read(bytes)) contents += frame->contents + ".";
  } catch (const RuntimeError&) {
    contents += "?";
  }
  return contents;
}

class AuthenticatedFrames : public ::testing::Test {
 protected:
  FrameWriter writer_{kKey};
  std::string first_ = writer_.write({FrameKind::put, "one"});
  std::string second_ = writer_.write({FrameKind::beat, ""});
  std::string third_ = writer_.write({FrameKind::put, "three"});
};

TEST_F(AuthenticatedFrames, AreReadInAnyPieces) {
  const std::string all = first_ + second_ + third_;
  EXPECT_EQ(read_all(all), "one..three.");
  FrameReader reader(kKey);
  std::string received;
  std::string contents;
  for (const char byte : all) {
    received += byte;
    if (const auto frame = reader.read(received)) contents += frame->contents + ".";
  }
  EXPECT_EQ(contents, "one..three.");
}

TEST_F(AuthenticatedFrames, AreRefusedIfTheyAreNotTheNext) {
  EXPECT_EQ(read_all(first_ + first_), "one.?") << "repeated";
  EXPECT_EQ(read_all(first_ + third_), "one.?") << "one is left out";
  EXPECT_EQ(read_all(second_ + first_), "?") << "in another order";
  EXPECT_EQ(read_all(first_ + second_ + third_, kOtherKey), "?") << "of another connection or direction";
}

TEST_F(AuthenticatedFrames, AreRefusedIfABitIsChanged) {
  for (std::size_t bit = 0; bit < 8 * first_.size(); ++bit) {
    std::string altered = first_;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(read_all(altered + second_), "?") << bit;
  }
}

TEST_F(AuthenticatedFrames, OfFalseLengthAreNotWaitedFor) {
  std::string header = first_.substr(0, kHeaderBytes + kTagBytes);
  header[0] = '\x0f';
  EXPECT_EQ(read_all(header), "?");
}

TEST_F(AuthenticatedFrames, OfOneKeyAreNotEqual) { EXPECT_NE(writer_.write({FrameKind::beat, ""}), second_); }

TEST(SessionKeys, DifferByAnythingThatTheSidesSaid) {
  const Greeting greeting{random_text(kChallengeBytes)};
  const Join join{random_text(kChallengeBytes), 1, 4};
  const SessionKeys keys = session_keys(join, greeting, "secret");
  EXPECT_EQ(session_keys(join, greeting, "secret").to_first, keys.to_first);
  EXPECT_NE(keys.to_first, keys.from_first);
  EXPECT_NE(session_keys(join, greeting, "Secret").to_first, keys.to_first);
  EXPECT_NE(session_keys(join, {random_text(kChallengeBytes)}, "secret").to_first, keys.to_first);
  EXPECT_NE(session_keys({random_text(kChallengeBytes), 1, 4}, greeting, "secret").to_first, keys.to_first);
  EXPECT_NE(session_keys({join.challenge, 2, 4}, greeting, "secret").to_first, keys.to_first);
  EXPECT_NE(session_keys({join.challenge, 1, 5}, greeting, "secret").to_first, keys.to_first);
}

TEST(Hashing, IsBlake2b) {
  // RFC 7693 gives the digest of 64 bytes; this is the one of 32, as from: printf abc | b2sum -l 256
  EXPECT_EQ(to_hex(digest("abc")), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST(Hashing, ComparesTexts) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("same", "same"));
  EXPECT_FALSE(equal_in_constant_time("same", "some"));
  EXPECT_FALSE(equal_in_constant_time("same", "sam"));
}

TEST(Printable, LeavesNothingThatATerminalObeys) {
  EXPECT_EQ(printable("plain text, 100 %"), "plain text, 100 %");
  EXPECT_EQ(printable("\x1b[2J\x07\r\n\x9b\xc2\x9b"), "\\x1b[2J\\x07\\x0d\\x0a\\x9b\\xc2\\x9b");
  EXPECT_EQ(printable("\\x1b"), "\\\\x1b") << "an escaped byte cannot be imitated";
  EXPECT_EQ(printable(std::string(100000, 'x')), std::string(160, 'x') + "… (100000 bytes)");
}

}  // namespace
}  // namespace strata::rendezvous
