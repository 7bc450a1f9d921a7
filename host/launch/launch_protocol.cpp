#include "launch/launch_protocol.hpp"

#include <nlohmann/json.hpp>

#include "strata/plugin.hpp"

namespace strata::host {

using nlohmann::json;

std::string launch_version() { return STRATA_VERSION " (ABI " + std::to_string(kAbiNumber) + ")"; }

json to_frame(const StartRequest& request) {
  json ranks = json::array();
  for (const ProcessRequest& each : request.ranks) {
    ranks.push_back(
        {{"rank", each.rank}, {"words", each.words}, {"environment", each.environment}, {"ranks", each.ranks}});
  }
  const Grace& grace = request.grace;
  json frame{{frame::kKind, frame::kStart},
             {"ranks", std::move(ranks)},
             {"logs", request.logs},
             {"after_failure", grace.after_failure.count()},
             {"after_end", grace.after_end.count()}};
  if (grace.after_signal) frame["after_signal"] = grace.after_signal->count();
  return frame;
}

StartRequest start_request(const json& frame) {
  StartRequest request;
  for (const json& each : frame.at("ranks")) {
    request.ranks.push_back({each.at("rank"), each.at("words"), each.at("environment"), each.at("ranks")});
  }
  request.logs = frame.at("logs");
  request.grace.after_failure = Grace::Seconds(frame.at("after_failure").get<double>());
  request.grace.after_end = Grace::Seconds(frame.at("after_end").get<double>());
  if (frame.contains("after_signal")) {
    request.grace.after_signal = Grace::Seconds(frame.at("after_signal").get<double>());
  }
  return request;
}

json to_frame(const RankLine& line) {
  return {{frame::kKind, frame::kLine}, {"rank", line.rank}, {"is_error", line.is_error}, {"text", line.text}};
}

RankLine rank_line(const json& frame) { return {frame.at("rank"), frame.at("is_error"), frame.at("text")}; }

json to_frame(const ProcessEnd& end) {
  return {
      {frame::kKind, frame::kEnd}, {"rank", end.rank},   {"exit_code", end.exit_code},        {"signal", end.signal},
      {"by_force", end.by_force},  {"ranks", end.ranks}, {"out_of_memory", end.out_of_memory}};
}

ProcessEnd process_end(const json& frame) {
  return {.rank = frame.at("rank"),
          .exit_code = frame.at("exit_code"),
          .signal = frame.at("signal"),
          .by_force = frame.at("by_force"),
          .out_of_memory = frame.at("out_of_memory"),
          .ranks = frame.at("ranks")};
}

}  // namespace strata::host
