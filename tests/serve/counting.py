"""Functions that tell how often they were called, in whatever process."""

import os


def counted(log):
    """The identity. Each call adds a line to the file."""

    def count(x):
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, b"%d\n" % os.getpid())
        os.close(fd)
        return x

    return count
