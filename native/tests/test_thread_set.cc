#include <thread>
#include <vector>

#include "core/thread_set.h"
#include "tests/check.h"

namespace feedline {
namespace {

TEST(a_thread_is_in_the_set_once_it_was_added) {
  ThreadSet set;
  CHECK(!set.has_this());
  set.add_this();
  set.add_this();
  CHECK(set.has_this());
  std::thread([&] {
    CHECK(!set.has_this());
    set.add_this();
    CHECK(set.has_this());
  }).join();
  CHECK(set.has_this());
}

TEST(a_thread_is_never_taken_for_one_that_has_ended) {
  ThreadSet set;
  std::thread([&] { set.add_this(); }).join();
  for (int i = 0; i < 100; ++i) std::thread([&] { CHECK(!set.has_this()); }).join();
}

TEST(sets_do_not_mix_up_their_threads) {
  ThreadSet one, other;
  one.add_this();
  CHECK(!other.has_this());
}

}  // namespace
}  // namespace feedline
