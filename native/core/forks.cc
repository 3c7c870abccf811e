#include "core/forks.h"

#include <pthread.h>

namespace feedline {

namespace {

unsigned count = 0;  // changed only by a child that has just begun, and has one thread

const int registered = pthread_atfork(nullptr, nullptr, [] { ++count; });

}  // namespace

unsigned forks() noexcept {
  static_cast<void>(registered);
  return count;
}

}  // namespace feedline
