#include "bind/bind.h"

NB_MODULE(_native, module) {
  using namespace feedline::bind;
  module.doc() = "feedline's compiled core; the modules of feedline wrap it, use those.";
  bind_buffer(module);
}
