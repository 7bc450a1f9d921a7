#pragma once

/// Marks what libstrata_testing exports.
#define STRATA_TESTING_API __attribute__((visibility("default")))
