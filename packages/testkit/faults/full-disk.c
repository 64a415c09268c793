/*
 * A disk without a free block, for machines where no small file system can be mounted. Preloaded into a process (LD_PRELOAD), it lets
 * files under $FULL_DISK_PATH be overwritten but not grow while the file $FULL_DISK_FLAG exists: what would need a new block fails
 * with ENOSPC, and the free space that is reported is none. SQLite's index of its log (-shm) is let be: it is cut and grown again, in
 * blocks that a real disk would just have got back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int full(void) {
  const char *flag = getenv("FULL_DISK_FLAG");
  return flag != NULL && access(flag, F_OK) == 0;
}

static int on_disk(int fd) {
  const char *root = getenv("FULL_DISK_PATH");
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (root == NULL || length <= 0) return 0;
  path[length] = 0;
  if (length > 4 && strcmp(path + length - 4, "-shm") == 0) return 0;
  return strncmp(path, root, strlen(root)) == 0;
}

static int too_long(int fd, off_t end) {
  struct stat is;
  if (!full() || fstat(fd, &is) != 0 || !S_ISREG(is.st_mode) || end <= is.st_size || !on_disk(fd)) return 0;
  errno = ENOSPC;
  return 1;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
  return too_long(fd, at + (off_t)length) ? -1 : REAL(pwrite)(fd, bytes, length, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
  return too_long(fd, at + (off_t)length) ? -1 : REAL(pwrite64)(fd, bytes, length, at);
}

ssize_t write(int fd, const void *bytes, size_t length) {
  if (full() && on_disk(fd)) {
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (at >= 0 && too_long(fd, at + (off_t)length)) return -1;
  }
  return REAL(write)(fd, bytes, length);
}

int ftruncate(int fd, off_t length) { return too_long(fd, length) ? -1 : REAL(ftruncate)(fd, length); }

static int hides_space(const char *path) {
  const char *root = getenv("FULL_DISK_PATH");
  return root != NULL && strncmp(path, root, strlen(root)) == 0 && full();
}

int statfs(const char *path, struct statfs *out) {
  int result = REAL(statfs)(path, out);
  if (result == 0 && hides_space(path)) out->f_bfree = out->f_bavail = 0;
  return result;
}

int statfs64(const char *path, struct statfs64 *out) {
  int result = REAL(statfs64)(path, out);
  if (result == 0 && hides_space(path)) out->f_bfree = out->f_bavail = 0;
  return result;
}
