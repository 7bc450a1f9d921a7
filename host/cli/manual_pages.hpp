#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace strata::host {

/// A page of the manual, in the macros of man(7).
struct ManualPage {
  /// The file's name: "strata-train.1".
  std::string file;
  std::string text;
};

/// The manual: strata(1), a page for every command, and strata.toml(5). The pages are made from the tables of --help
/// and of the configuration. `date` is the release's, as year-month-day.
std::vector<ManualPage> manual_pages(const CLI::App& app, const std::string& date);

}  // namespace strata::host
