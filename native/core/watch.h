// A process that must not outlive another.
#pragma once

namespace feedline {

// Ends this process at once when the other end of the socket is closed, whatever it is doing then. The
// descriptor stays the caller's. Throws std::system_error when no thread can be started.
void exit_with_peer(int socket);

}  // namespace feedline
