// A FileBudget as Python holds it.
#pragma once

#include <memory>
#include <vector>

#include "core/file_pool.h"

namespace feedline::bind {

// Not bound as a shared_ptr itself: that would keep the Python object alive, so that a thread that drops the
// last one would wait for Python's lock, perhaps while it holds another that Python's thread waits for.
struct PyFileBudget {
  std::shared_ptr<FileBudget> budget;
};

inline FileBudgets to_core(const std::vector<PyFileBudget>& budgets) {
  FileBudgets all;
  for (const PyFileBudget& one : budgets) all.push_back(one.budget);
  return all;
}

}  // namespace feedline::bind
