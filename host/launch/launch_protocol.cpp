#include "launch/launch_protocol.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "strata/plugin.hpp"

namespace strata::host {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kLongestFrame = 16 << 20;
/// The longest text before the greeting.
constexpr std::size_t kLongestPreface = 1 << 20;

void do_not_block(const Descriptor& descriptor) {
  ::fcntl(descriptor.number(), F_SETFL, ::fcntl(descriptor.number(), F_GETFL) | O_NONBLOCK);
}

}  // namespace

FrameChannel::FrameChannel(Descriptor input, Descriptor output) : input_(std::move(input)), output_(std::move(output)) {
  do_not_block(input_);
  do_not_block(output_);
}

void FrameChannel::send_greeting(const std::string& text) { unsent_ += "\n" + text + "\n"; }

void FrameChannel::send(const nlohmann::json& frame) {
  const std::vector<std::uint8_t> contents = nlohmann::json::to_cbor(frame);
  for (std::size_t i = 0; i < kLengthBytes; ++i) unsent_ += static_cast<char>(contents.size() >> (8 * i) & 0xFFU);
  unsent_.append(contents.begin(), contents.end());
  write();
}

void FrameChannel::add_wanted(std::vector<pollfd>& wanted) const {
  if (input_.is_open()) wanted.push_back({input_.number(), POLLIN, 0});
  if (output_.is_open() && !unsent_.empty()) wanted.push_back({output_.number(), POLLOUT, 0});
}

std::vector<nlohmann::json> FrameChannel::exchange() {
  write();
  read();
  find_greeting();
  std::vector<nlohmann::json> frames;
  while (auto frame = next_frame()) frames.push_back(std::move(*frame));
  return frames;
}

void FrameChannel::flush(int milliseconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  for (write(); output_.is_open() && !unsent_.empty(); write()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return;
    pollfd wanted{output_.number(), POLLOUT, 0};
    ::poll(&wanted, 1, static_cast<int>(left));
  }
}

void FrameChannel::close() {
  input_.close();
  output_.close();
  received_.clear();
  unsent_.clear();
}

void FrameChannel::write() {
  while (output_.is_open() && !unsent_.empty()) {
    const ssize_t count = ::write(output_.number(), unsent_.data(), unsent_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count < 0) {
      // The other side has closed; its last frames may still be readable.
      output_.close();
      unsent_.clear();
      return;
    }
    unsent_.erase(0, static_cast<std::size_t>(count));
  }
}

void FrameChannel::read() {
  std::array<char, 65536> buffer{};
  while (input_.is_open() && received_.size() < kLongestFrame + kLengthBytes) {
    const ssize_t count = ::read(input_.number(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count <= 0) return input_.close();
    received_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

void FrameChannel::find_greeting() {
  if (expected_.empty() || greeting_) return;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = received_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = received_.substr(begin, end - begin);
    if (!line.starts_with(expected_)) continue;
    greeting_ = line.substr(expected_.size());
    received_.erase(0, end + 1);
    return;
  }
  received_.erase(0, begin);
  if (received_.size() > kLongestPreface) input_.close();
}

std::optional<nlohmann::json> FrameChannel::next_frame() {
  if ((!expected_.empty() && !greeting_) || received_.size() < kLengthBytes) return std::nullopt;
  std::size_t size = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    size |= static_cast<std::size_t>(static_cast<unsigned char>(received_[i])) << (8 * i);
  }
  nlohmann::json frame = nlohmann::json::value_t::discarded;
  if (size <= kLongestFrame) {
    if (received_.size() < kLengthBytes + size) return std::nullopt;
    const std::string_view contents = std::string_view(received_).substr(kLengthBytes, size);
    frame = nlohmann::json::from_cbor(contents, /*strict=*/true, /*allow_exceptions=*/false);
  }
  if (!frame.is_object()) {
    // What follows cannot be read either.
    close();
    return std::nullopt;
  }
  received_.erase(0, kLengthBytes + size);
  return frame;
}

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProcessRequest, rank, words, environment, ranks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankLine, rank, is_error, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProcessEnd, rank, exit_code, signal, by_force, out_of_memory, ranks)

std::string launch_version() { return fmt::format("{} (ABI {})", STRATA_VERSION, kAbiNumber); }

json to_frame(const StartRequest& request) {
  const Grace& grace = request.grace;
  json start{{frame::kKind, frame::kStart},
             {"ranks", request.ranks},
             {"logs", request.logs},
             {"after_failure", grace.after_failure.count()},
             {"after_end", grace.after_end.count()}};
  if (grace.after_signal) start["after_signal"] = grace.after_signal->count();
  return start;
}

StartRequest start_request(const json& frame) {
  StartRequest request{frame.at("ranks").get<std::vector<ProcessRequest>>(), {}, frame.at("logs")};
  request.grace.after_failure = Grace::Seconds(frame.at("after_failure").get<double>());
  request.grace.after_end = Grace::Seconds(frame.at("after_end").get<double>());
  if (frame.contains("after_signal")) {
    request.grace.after_signal = Grace::Seconds(frame.at("after_signal").get<double>());
  }
  return request;
}

json to_frame(const RankLine& line) {
  json sent = line;
  sent[frame::kKind] = frame::kLine;
  return sent;
}

json to_frame(const ProcessEnd& end) {
  json sent = end;
  sent[frame::kKind] = frame::kEnd;
  return sent;
}

RankLine rank_line(const json& frame) { return frame.get<RankLine>(); }
ProcessEnd process_end(const json& frame) { return frame.get<ProcessEnd>(); }

bool LaunchHeartbeat::is_due() {
  if (Clock::now() - sent_ < kPeriod) return false;
  sent_ = Clock::now();
  return true;
}

bool LaunchHeartbeat::is_silent() {
  const auto now = Clock::now();
  // It is asked every second, so a longer time is one in which this process did not run.
  if (now - asked_ > kPeriod) heard_ = now;
  asked_ = now;
  return now - heard_ > kSilence;
}

}  // namespace strata::host
