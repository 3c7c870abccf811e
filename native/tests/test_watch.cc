#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/watch.h"
#include "tests/check.h"

namespace feedline {

TEST(a_process_ends_with_its_peer_whatever_it_is_doing) {
  int ends[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    exit_with_peer(ends[1]);
    volatile bool busy = true;
    while (busy) {
    }
  }
  close(ends[1]);
  // What is only to be read does not end it.
  CHECK_EQ(send(ends[0], "x", 1, 0), 1);
  usleep(50'000);
  CHECK_EQ(waitpid(child, nullptr, WNOHANG), 0);
  close(ends[0]);
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
}

}  // namespace feedline
