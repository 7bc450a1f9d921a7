#include "files/utc_time.hpp"

#include <array>
#include <chrono>
#include <ctime>

#include "files/text_format.hpp"

namespace strata::host {

std::string utc_time() {
  using Clock = std::chrono::system_clock;
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(Clock::now());
  const std::time_t seconds = Clock::to_time_t(now);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return text.data() + format_line(".%03dZ", static_cast<int>(now.time_since_epoch().count() % 1000));
}

}  // namespace strata::host
