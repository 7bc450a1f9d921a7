#pragma once

/// \file
/// The header that every kernel file includes.

#include "language/conversion.hpp"
#include "language/dialect.hpp"
#include "language/element.hpp"
#include "language/matrix_fragment.hpp"
#include "language/packed.hpp"
#include "language/random.hpp"
#include "language/reduction.hpp"
#include "language/shared_memory.hpp"
