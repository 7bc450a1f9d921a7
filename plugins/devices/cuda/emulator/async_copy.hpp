#pragma once

namespace strata::cuda::emulator {

/// Copies happen as late as a GPU may do them, when they are waited for: a kernel that reads too early reads what was
/// there before.
void copy_async(void* shared, const void* global, bool valid);
void commit_copies();
void wait_copies(int pending);

}  // namespace strata::cuda::emulator
