#include "core/watch.h"

#include <poll.h>
#include <unistd.h>

#include <thread>

namespace feedline {

void exit_with_peer(int socket) {
  std::thread([socket] {
    // Only its end is asked for, not what can be read.
    pollfd peer{socket, POLLRDHUP, 0};
    while (poll(&peer, 1, -1) <= 0 || (peer.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) == 0) {
    }
    _exit(0);
  }).detach();
}

}  // namespace feedline
