#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "tests/check.h"

namespace feedline {
namespace {

bool is_aligned(const Buffer& buffer) { return reinterpret_cast<uintptr_t>(buffer.data()) % kAlignment == 0; }

TEST(an_empty_buffer_holds_nothing) {
  const Buffer none;
  const Buffer zero(0);
  CHECK_EQ(none.size(), 0u);
  CHECK_EQ(zero.size(), 0u);
  CHECK(zero.bytes().empty());
}

TEST(buffers_of_every_size_are_aligned_and_writable_to_the_last_byte) {
  for (size_t size = 1; size < 20000; size += size < 200 ? 1 : 97) {
    Buffer buffer(size);
    CHECK(is_aligned(buffer));
    CHECK_EQ(buffer.size(), size);
    CHECK(buffer.capacity() >= size);
    std::memset(buffer.data(), 0xab, size);
  }
}

TEST(a_dead_buffer_s_memory_is_used_again_for_one_of_nearly_its_size) {
  const size_t before = pooled_bytes();
  const uint8_t* memory = nullptr;
  size_t capacity = 0;
  {
    const Buffer first(1'000'000);
    memory = first.data();
    capacity = first.capacity();
  }
  CHECK_EQ(pooled_bytes(), before + capacity);
  const Buffer second(999'000);
  CHECK(second.data() == memory);
  CHECK_EQ(second.size(), 999'000u);
  CHECK_EQ(pooled_bytes(), before);
}

TEST(two_living_buffers_never_share_memory) {
  {
    const Buffer pooled(50'000);
  }
  Buffer a(50'000), b(50'000);
  CHECK(a.data() != b.data());
  std::memset(a.data(), 1, a.size());
  std::memset(b.data(), 2, b.size());
  CHECK_EQ(a.data()[a.size() - 1], 1);
  CHECK_EQ(b.data()[0], 2);
}

TEST(small_buffers_do_not_go_to_the_pool) {
  const size_t before = pooled_bytes();
  {
    const Buffer small(100);
  }
  CHECK_EQ(pooled_bytes(), before);
}

TEST(the_pool_keeps_a_bounded_number_of_idle_bytes) {
  constexpr size_t kSize = size_t{64} << 20;
  {
    std::vector<Buffer> many;
    for (int i = 0; i < 8; ++i) many.emplace_back(kSize);
  }
  CHECK(pooled_bytes() <= size_t{256} << 20);
  CHECK(pooled_bytes() >= kSize);
}

TEST(resize_keeps_the_bytes_and_the_alignment) {
  Buffer buffer;
  for (size_t size = 1; size < 300'000; size += 1 + size / 3) {
    const size_t old = buffer.size();
    buffer.resize(size);
    CHECK(is_aligned(buffer));
    CHECK_EQ(buffer.size(), size);
    for (size_t i = old; i < size; ++i) buffer.data()[i] = static_cast<uint8_t>(i * 7);
    for (size_t i = 0; i < size; i += 11) {
      if (!CHECK_EQ(buffer.data()[i], static_cast<uint8_t>(i * 7))) return;
    }
  }
  const uint8_t* memory = buffer.data();
  buffer.resize(10);
  CHECK_EQ(buffer.size(), 10u);
  CHECK(buffer.data() == memory);
  CHECK_EQ(buffer.data()[9], 63);
}

TEST(growing_byte_by_byte_moves_seldom) {
  Buffer buffer;
  int moves = 0;
  for (size_t size = 1; size <= 1'000'000; ++size) {
    const size_t capacity = buffer.capacity();
    buffer.resize(size);
    if (buffer.capacity() != capacity) ++moves;
  }
  CHECK(moves < 40);
}

TEST(a_moved_buffer_takes_its_memory_along) {
  Buffer a(5000);
  const uint8_t* memory = a.data();
  Buffer b(std::move(a));
  CHECK(b.data() == memory);
  CHECK(a.data() == nullptr);  // NOLINT: what a move leaves behind is part of the contract
  CHECK_EQ(a.size(), 0u);
  Buffer c;
  c = std::move(b);
  CHECK(c.data() == memory);
  CHECK_EQ(c.size(), 5000u);
}

TEST(a_hostile_size_is_bad_alloc_and_nothing_else) {
  for (const size_t size : {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2 + 1}) {
    bool thrown = false;
    try {
      const Buffer buffer(size);
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    CHECK(thrown);
    Buffer grown(100);
    grown.data()[99] = 5;
    try {
      grown.resize(size);
      CHECK(false);
    } catch (const std::bad_alloc&) {
      CHECK_EQ(grown.size(), 100u);
      CHECK_EQ(grown.data()[99], 5);
    }
  }
}

TEST(threads_may_share_the_pool) {
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([t, &wrong] {
      for (size_t i = 0; i < 2000; ++i) {
        Buffer buffer(4096 + 512 * (i % 8));
        std::memset(buffer.data(), static_cast<int>(t), buffer.size());
        for (size_t at = 0; at < buffer.size(); at += 500) wrong[t] += buffer.data()[at] != t;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) CHECK_EQ(count, 0);
}

}  // namespace
TEST(a_child_that_is_forked_while_threads_use_the_pool_can_use_it) {
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&done] {
      while (!done) Buffer buffer(8192);
    });
  }
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);  // ends it if it waits for a thread that it does not have
      Buffer buffer(8192);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (!CHECK_EQ(status, 0)) break;
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace feedline
