#pragma once

#include "settings.hpp"
#include "strata/bucket_work.hpp"

namespace localsgd {

/// Emits the outer step of one bucket.
void emit_outer_step(const Settings& settings, strata::BucketContext& context);

/// Defines the outer step of one whole parameter.
void define_outer_step(const Settings& settings, int fragment, strata::DefinedReplicas& replicas);

}  // namespace localsgd
