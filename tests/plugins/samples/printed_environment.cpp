#include <iostream>

#include "loading/search_places.hpp"

/// Prints what a process accepts of its environment.
int main() {
  const strata::host::PluginEnvironment environment = strata::host::plugin_environment();
  std::cout << '[' << environment.plugin_path << '|' << environment.data_home << '|' << environment.home << "]\n";
}
