// TEST(name) { CHECK(...); CHECK_EQ(a, b); }: all that the tests of the core need of a framework.
//
// A failed check is printed with its values and the test goes on. main.cc runs every TEST that is linked in.
#pragma once

#include <concepts>
#include <sstream>
#include <string>
#include <type_traits>

namespace feedline::check {

struct Test {
  const char* name;
  void (*run)();
  Test* next = nullptr;

  Test(const char* test_name, void (*function)());  // adds itself to those that main() runs
};

void fail(const char* file, int line, const std::string& what);

template <class T>
std::string shown(const T& value) {
  std::ostringstream text;
  if constexpr (std::is_enum_v<T>) {
    text << +static_cast<std::underlying_type_t<T>>(value);
  } else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    text << +value << " (0x" << std::hex << +value << ")";  // + prints a uint8_t as the number that it is
  } else if constexpr (requires { text << value; }) {
    text << std::boolalpha << value;
  } else {
    text << "a value that cannot be printed";
  }
  return text.str();
}

// Numbers of different types compare by value: 1u == 1, and -1 is not 0xffffffff.
template <class A, class B>
bool equal(const A& a, const B& b) {
  if constexpr (std::integral<A> && std::integral<B> && !std::same_as<A, B>) {
    return (a < A{}) == (b < B{}) &&
           static_cast<std::common_type_t<A, B>>(a) == static_cast<std::common_type_t<A, B>>(b);
  } else {
    return a == b;
  }
}

template <class A, class B>
bool check_eq(const A& a, const B& b, const char* text, const char* file, int line) {
  if (equal(a, b)) return true;
  fail(file, line, std::string(text) + "\n    left:  " + shown(a) + "\n    right: " + shown(b));
  return false;
}

}  // namespace feedline::check

#define TEST(name)                                                      \
  static void test_##name();                                            \
  static ::feedline::check::Test registered_##name(#name, test_##name); \
  static void test_##name()

// Both give whether the check held, for loops that should end at the first failure.
#define CHECK(condition) \
  ((condition) ? true : (::feedline::check::fail(__FILE__, __LINE__, #condition), false))
#define CHECK_EQ(a, b) ::feedline::check::check_eq((a), (b), #a " == " #b, __FILE__, __LINE__)
