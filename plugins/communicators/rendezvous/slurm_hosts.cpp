#include "slurm_hosts.hpp"

#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

/// Position after the first name. Commas in brackets separate numbers and not hosts.
std::size_t end_of_first(std::string_view list) {
  bool in_brackets = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') in_brackets = true;
    if (list[i] == ']') in_brackets = false;
    if (list[i] == ',' && !in_brackets) return i;
  }
  return list.size();
}

}  // namespace

std::string first_slurm_host(std::string_view list) {
  std::string_view rest = list.substr(0, end_of_first(list));
  std::string host;
  // Replace every bracket by its first number. A name may have several brackets.
  while (!rest.empty()) {
    const std::size_t open = rest.find('[');
    host += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find(']', open);
    const std::string_view numbers =
        close == std::string_view::npos ? std::string_view{} : rest.substr(open + 1, close - open - 1);
    if (numbers.empty()) break;
    host += numbers.substr(0, numbers.find_first_of("-,"));
    rest.remove_prefix(close + 1);
    if (rest.empty()) return host;
  }
  if (host.empty() || rest.find('[') != std::string_view::npos) {
    throw ConfigurationError("Slurm's list of hosts: found '" + std::string(list) +
                             "'; accepted: a list of hosts such as gpu[07-09,12]");
  }
  return host;
}

}  // namespace strata::rendezvous
