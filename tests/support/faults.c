/* Makes the n-th call of one kind fail, of those on files below a directory. Preloaded; by the
 * environment: FAULT_KIND (open, read, write, sync, rename, mkdir, list, remove; any: all of them),
 * FAULT_NUMBER (0: none), FAULT_ERRNO (0: the process is killed), FAULT_BELOW, FAULT_COUNT (a
 * file that grows by a byte with each such call, in all processes). */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_below(const char *path) {
    const char *below = getenv("FAULT_BELOW");
    char whole[PATH_MAX];
    if (!below || !path) return 0;
    if (path[0] != '/') {
        if (syscall(SYS_getcwd, whole, sizeof whole) <= 0) return 0;
        size_t n = strlen(whole);
        if (n + strlen(path) + 2 > sizeof whole) return 0;
        whole[n] = '/';
        strcpy(whole + n + 1, path);
        path = whole;
    }
    return !strncmp(path, below, strlen(below));
}

static int is_wanted(const char *kind) {
    const char *wanted = getenv("FAULT_KIND");
    return wanted && (!strcmp(wanted, kind) || !strcmp(wanted, "any"));
}

static int fails(const char *kind, const char *path) {
    const char *count = getenv("FAULT_COUNT");
    if (!count || !is_wanted(kind) || !is_below(path)) return 0;
    int known = errno;
    long fd = syscall(SYS_openat, AT_FDCWD, count, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return 0;
    syscall(SYS_write, fd, "x", 1);
    long number = syscall(SYS_lseek, fd, 0, SEEK_CUR);
    syscall(SYS_close, fd);
    errno = known;
    if (number != atol(getenv("FAULT_NUMBER"))) return 0;
    errno = atoi(getenv("FAULT_ERRNO"));
    if (!errno) kill(getpid(), SIGKILL);
    return 1;
}

static int fd_fails(const char *kind, int fd) {
    char link[64], path[PATH_MAX];
    if (!is_wanted(kind)) return 0;
    int known = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long n = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    errno = known;
    if (n <= 0) return 0;
    path[n] = 0;
    return fails(kind, path);
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more); \
        return fails("open", path) ? -1 : real(path, flags, mode); \
    }
OPENS(open)
OPENS(open64)
#define OPENS_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(name); \
        va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more); \
        return fails("open", path) ? -1 : real(at, path, flags, mode); \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

ssize_t read(int fd, void *data, size_t n) {
    REAL(read);
    return fd_fails("read", fd) ? -1 : real(fd, data, n);
}
ssize_t pread(int fd, void *data, size_t n, off_t at) {
    REAL(pread);
    return fd_fails("read", fd) ? -1 : real(fd, data, n, at);
}
ssize_t pread64(int fd, void *data, size_t n, off64_t at) {
    REAL(pread64);
    return fd_fails("read", fd) ? -1 : real(fd, data, n, at);
}
ssize_t write(int fd, const void *data, size_t n) {
    REAL(write);
    return fd_fails("write", fd) ? -1 : real(fd, data, n);
}
int fsync(int fd) {
    REAL(fsync);
    return fd_fails("sync", fd) ? -1 : real(fd);
}
int fdatasync(int fd) {
    REAL(fdatasync);
    return fd_fails("sync", fd) ? -1 : real(fd);
}
int rename(const char *from, const char *to) {
    REAL(rename);
    return fails("rename", to) ? -1 : real(from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
    REAL(renameat);
    return fails("rename", to) ? -1 : real(a, from, b, to);
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    REAL(renameat2);
    return fails("rename", to) ? -1 : real(a, from, b, to, flags);
}
int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return fails("mkdir", path) ? -1 : real(path, mode);
}
int mkdirat(int at, const char *path, mode_t mode) {
    REAL(mkdirat);
    return fails("mkdir", path) ? -1 : real(at, path, mode);
}
int unlink(const char *path) {
    REAL(unlink);
    return fails("remove", path) ? -1 : real(path);
}
/* Where `at` is the current directory, or the path is absolute; else by the directory alone. */
int unlinkat(int at, const char *path, int flags) {
    REAL(unlinkat);
    int fault = at == AT_FDCWD || path[0] == '/' ? fails("remove", path) : fd_fails("remove", at);
    return fault ? -1 : real(at, path, flags);
}
int rmdir(const char *path) {
    REAL(rmdir);
    return fails("remove", path) ? -1 : real(path);
}
DIR *opendir(const char *path) {
    REAL(opendir);
    return fails("list", path) ? NULL : real(path);
}
DIR *fdopendir(int fd) {
    REAL(fdopendir);
    return fd_fails("list", fd) ? NULL : real(fd);
}
