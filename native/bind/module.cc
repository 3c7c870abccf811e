#include "bind/arrays.h"
#include "bind/bind.h"

NB_MODULE(_native, module) {
  using namespace feedline::bind;
  import_numpy();
  module.doc() = "feedline's compiled core; the modules of feedline wrap it, use those.";
  bind_buffer(module);
  bind_checksum(module);
  bind_gather(module);
  bind_pick(module);
  bind_shuffle(module);
  bind_records(module);
  bind_decode(module);
  bind_encode(module);
  bind_survey(module);
  bind_append(module);
  bind_process(module);
  bind_write(module);
  bind_part_file(module);
}
