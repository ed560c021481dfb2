"""What Python does not have on macOS and Windows, of what it has on Linux (docs.python.org, "Availability")."""

LINUX_ONLY = {
    "os": {
        "sched_getaffinity", "sched_setaffinity", "pidfd_open", "memfd_create", "eventfd", "splice", "copy_file_range", "getrandom",
        "posix_fadvise", "posix_fallocate", "setresuid", "getresuid",
    },
    "select": {"epoll"},
    "socket": {"SOCK_SEQPACKET"},  # macOS has the name, and refuses it for AF_UNIX
}  # fmt: skip
NOT_ON_WINDOWS = {
    "os": {
        "fork", "forkpty", "register_at_fork", "getuid", "geteuid", "getgid", "getegid", "getgroups", "getpgid", "getpgrp", "setpgid",
        "setsid", "setuid", "setgid", "killpg", "wait", "wait3", "wait4", "WNOHANG", "pread", "pwrite", "preadv", "pwritev", "sysconf",
        "confstr", "uname", "nice", "chown", "fchown", "lchown", "fchmod", "fchdir", "mkfifo", "mknod", "openpty", "getloadavg", "ctermid",
        "tcgetpgrp", "tcsetpgrp", "getpriority", "setpriority", "statvfs", "sendfile", "posix_spawn", "set_blocking", "get_blocking",
        "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "O_SYNC",
    },
    "signal": {
        "SIGKILL", "SIGHUP", "SIGCHLD", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM", "SIGPIPE", "SIGSTOP", "SIGCONT", "SIGTSTP", "SIGWINCH",
        "SIG_BLOCK", "SIG_UNBLOCK", "SIG_SETMASK", "alarm", "setitimer", "pause", "sigwait", "pthread_sigmask", "pthread_kill",
        "siginterrupt",
    },
    "socket": {"AF_UNIX", "send_fds", "recv_fds", "SO_REUSEPORT"},
    "select": {"poll", "kqueue"},
    "time": {"tzset"},
}  # fmt: skip
MODULES_NOT_ON_WINDOWS = {"fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog", "curses", "readline", "posix"}


def absent_names(system: str) -> dict[str, set[str]]:
    """Module -> what it lacks on `darwin` or `win32`."""
    lists = (LINUX_ONLY, NOT_ON_WINDOWS) if system == "win32" else (LINUX_ONLY,)
    return {module: set().union(*(of.get(module, set()) for of in lists)) for module in {name for of in lists for name in of}}
