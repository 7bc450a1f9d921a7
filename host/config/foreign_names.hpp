#pragma once

#include <string>
#include <string_view>

namespace strata::host {

/// What other programs' name of a setting is called here: an option of a plugin, such as "layers" for "n_layer", or a
/// key with its section, such as "optimizer.lr" for "learning_rate". Empty if the name is not known.
[[nodiscard]] std::string name_here(std::string_view foreign);

}  // namespace strata::host
