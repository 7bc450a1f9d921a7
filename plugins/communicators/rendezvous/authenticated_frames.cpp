#include "authenticated_frames.hpp"

#include <string_view>

#include "bytes.hpp"
#include "hashing.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

std::string number_of_frame(std::uint64_t count) {
  ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(count >> 32U));
  writer.number(static_cast<std::uint32_t>(count));
  return writer.take();
}

std::string tag_of(const std::string& key, std::uint64_t count, const char* part, std::string_view bytes) {
  return keyed_digest(key, {number_of_frame(count), part, bytes}, kTagBytes);
}

void require_equal(std::string_view found, const std::string& expected) {
  if (equal_in_constant_time(found, expected)) return;
  throw RuntimeError(
      "rendezvous: a frame is not the next one that the peer has sent: something between the two has altered, repeated "
      "or removed bytes");
}

}  // namespace

std::string FrameWriter::write(const Frame& frame) {
  const std::uint64_t count = count_++;
  std::string bytes = header_of(frame);
  const std::string tag_of_header = tag_of(key_, count, "header", bytes);
  if (frame.contents.empty()) return bytes + tag_of_header;
  const std::string tag = keyed_digest(key_, {number_of_frame(count), "contents", bytes, frame.contents}, kTagBytes);
  return bytes + tag_of_header + frame.contents + tag;
}

std::optional<Frame> FrameReader::read(std::string& bytes) {
  constexpr std::size_t kBegin = kHeaderBytes + kTagBytes;
  if (bytes.size() < kBegin) return std::nullopt;
  const std::string_view all = bytes;
  const std::string_view header = all.substr(0, kHeaderBytes);
  if (!header_is_true_) require_equal(all.substr(kHeaderBytes, kTagBytes), tag_of(key_, count_, "header", header));
  header_is_true_ = true;
  const auto [kind, length] = read_header(bytes, kLongestFrame);
  const std::size_t size = length == 0 ? kBegin : kBegin + length + kTagBytes;
  if (bytes.size() < size) return std::nullopt;
  Frame frame{kind, bytes.substr(kBegin, length)};
  if (length > 0) {
    require_equal(all.substr(kBegin + length, kTagBytes),
                  keyed_digest(key_, {number_of_frame(count_), "contents", header, frame.contents}, kTagBytes));
  }
  bytes.erase(0, size);
  header_is_true_ = false;
  ++count_;
  return frame;
}

}  // namespace strata::rendezvous
