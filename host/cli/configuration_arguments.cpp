#include "cli/configuration_arguments.hpp"

namespace strata::host {

void ConfigurationArguments::add_to(CLI::App& command) {
  command.add_option("CONFIG", file, "The run's TOML file")->required();
  command.add_option("--set", overrides, "Overrides a key, as in --set model.layers=2; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command.footer("Keys of the configuration: strata help configuration");
}

}  // namespace strata::host
