#include "launch/launch_protocol.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "strata/plugin.hpp"

namespace strata::host {

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
