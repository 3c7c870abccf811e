#include <cstdio>
#include <exception>

#include "tests/check.h"

namespace feedline::check {
namespace {

Test* first = nullptr;
Test** last = &first;
int failures_of_this_test = 0;

}  // namespace

Test::Test(const char* test_name, void (*function)()) : name(test_name), run(function) {
  *last = this;
  last = &next;
}

void fail(const char* file, int line, const std::string& what) {
  constexpr int kShown = 5;  // a broken loop says the same thing thousands of times
  if (++failures_of_this_test <= kShown) std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  if (failures_of_this_test == kShown + 1)
    std::fprintf(stderr, "  further failures of this test are not shown\n");
}

}  // namespace feedline::check

int main() {
  using namespace feedline::check;
  int passed = 0, failed = 0;
  for (Test* test = first; test != nullptr; test = test->next) {
    failures_of_this_test = 0;
    try {
      test->run();
    } catch (const std::exception& error) {
      fail(test->name, 0, std::string("threw ") + error.what());
    }
    if (failures_of_this_test == 0) {
      ++passed;
    } else {
      ++failed;
      std::fprintf(stderr, "FAILED %s: %d checks\n", test->name, failures_of_this_test);
    }
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}
