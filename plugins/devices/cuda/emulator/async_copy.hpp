#pragma once

namespace strata::cuda::emulator {

/// Starts an asynchronous copy. The emulator copies as late as a GPU may: when the kernel waits for it. So a kernel
/// that reads too early reads old data.
void copy_async(void* shared, const void* global, bool valid);
void commit_copies();
void wait_copies(int pending);

}  // namespace strata::cuda::emulator
