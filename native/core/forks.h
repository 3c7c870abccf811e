// Has this process been forked since? Threads and locks do not survive that.
#pragma once

namespace feedline {

// How many forks lie between this process and the one that loaded the core. Cheaper than getpid().
unsigned forks() noexcept;

}  // namespace feedline
