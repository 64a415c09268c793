/*
 * A disk that forgets. Preloaded into a process (LD_PRELOAD), it keeps beside every file under $POWER_CUT_LIVE a second one under
 * $POWER_CUT_SHADOW that holds only what was flushed: what a machine would find after its power failed at this instant, had none of
 * the unflushed writes reached the disk. Written ranges are remembered per file and copied when fsync or fdatasync returns; a new
 * length counts from then on too. Names (create, link, rename, unlink) are taken as lasting at once: file systems that flush a file's name
 * with its contents do so. With POWER_CUT_LIE=1 flushes do nothing and claim to have worked, like a disk with a volatile cache.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))real(#name))

struct range {
  off_t from, to;
};

struct file {
  dev_t dev;
  ino_t ino;
  struct range *ranges;
  size_t count, room;
  struct file *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *files;

static void *real(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

/* The shadow's path of a path under the watched folder; 0 for every other path. */
static int shadow_of(const char *path, char *out) {
  const char *live = getenv("POWER_CUT_LIVE"), *shadow = getenv("POWER_CUT_SHADOW");
  char whole[PATH_MAX];
  if (live == NULL || shadow == NULL || path == NULL) return 0;
  if (path[0] != '/') {
    char here[PATH_MAX / 2];
    if (getcwd(here, sizeof here) == NULL) return 0;
    snprintf(whole, sizeof whole, "%s/%s", here, path);
    path = whole;
  }
  size_t length = strlen(live);
  if (strncmp(path, live, length) != 0 || path[length] != '/') return 0;
  return snprintf(out, PATH_MAX, "%s%s", shadow, path + length) < PATH_MAX;
}

static int path_of(int fd, char *out) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, out, PATH_MAX - 1);
  if (length <= 0) return 0;
  out[length] = 0;
  return 1;
}

static struct file *known(dev_t dev, ino_t ino) {
  for (struct file *file = files; file != NULL; file = file->next)
    if (file->dev == dev && file->ino == ino) return file;
  return NULL;
}

static struct file *file_of(int fd, const struct stat *is) {
  char path[PATH_MAX], shadow[PATH_MAX];
  struct file *file = known(is->st_dev, is->st_ino);
  if (file != NULL) return file;
  if (!path_of(fd, path) || !shadow_of(path, shadow)) return NULL;
  file = calloc(1, sizeof *file);
  if (file == NULL) abort();
  file->dev = is->st_dev;
  file->ino = is->st_ino;
  file->next = files;
  files = file;
  return file;
}

static void wrote(int fd, off_t from, ssize_t length) {
  struct stat is;
  if (length <= 0 || fstat(fd, &is) != 0 || !S_ISREG(is.st_mode)) return;
  pthread_mutex_lock(&lock);
  struct file *file = file_of(fd, &is);
  if (file != NULL) {
    struct range *last = file->count > 0 ? &file->ranges[file->count - 1] : NULL;
    if (last != NULL && last->to == from) {
      last->to = from + length;
    } else {
      if (file->count == file->room) {
        file->room = file->room * 2 + 16;
        file->ranges = realloc(file->ranges, file->room * sizeof *file->ranges);
        if (file->ranges == NULL) abort();
      }
      file->ranges[file->count++] = (struct range){from, from + length};
    }
  }
  pthread_mutex_unlock(&lock);
}

static void copy(int from, int to, struct range range) {
  static char buffer[1 << 16];
  while (range.from < range.to) {
    size_t wish = range.to - range.from < (off_t)sizeof buffer ? (size_t)(range.to - range.from) : sizeof buffer;
    ssize_t got = pread(from, buffer, wish, range.from);
    if (got <= 0 || REAL(pwrite)(to, buffer, got, range.from) != got) return;
    range.from += got;
  }
}

static void flushed(int fd) {
  struct stat is;
  char path[PATH_MAX], shadow[PATH_MAX];
  if (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode)) return;
  pthread_mutex_lock(&lock);
  struct file *file = file_of(fd, &is);
  if (file != NULL && path_of(fd, path) && shadow_of(path, shadow)) {
    for (char *at = shadow + 1; *at != 0; at++) {
      if (*at != '/') continue;
      *at = 0;
      mkdir(shadow, 0700);
      *at = '/';
    }
    int from = open(path, O_RDONLY | O_CLOEXEC), to = open(shadow, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (from < 0 || to < 0) abort();
    for (size_t i = 0; i < file->count; i++) copy(from, to, file->ranges[i]);
    if (REAL(ftruncate)(to, is.st_size) != 0) abort();
    close(from);
    close(to);
    file->count = 0;
  }
  pthread_mutex_unlock(&lock);
}

static int lies(void) {
  const char *lie = getenv("POWER_CUT_LIE");
  return lie != NULL && lie[0] == '1';
}

int fsync(int fd) {
  if (lies()) return 0;
  int result = REAL(fsync)(fd);
  if (result == 0) flushed(fd);
  return result;
}

int fdatasync(int fd) {
  if (lies()) return 0;
  int result = REAL(fdatasync)(fd);
  if (result == 0) flushed(fd);
  return result;
}

ssize_t write(int fd, const void *bytes, size_t length) {
  ssize_t result = REAL(write)(fd, bytes, length);
  if (result > 0) {
    off_t end = lseek(fd, 0, SEEK_CUR);
    if (end >= 0) wrote(fd, end - result, result);
  }
  return result;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
  ssize_t result = REAL(pwrite)(fd, bytes, length, at);
  wrote(fd, at, result);
  return result;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
  ssize_t result = REAL(pwrite64)(fd, bytes, length, at);
  wrote(fd, at, result);
  return result;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  ssize_t result = REAL(pwritev)(fd, parts, count, at);
  wrote(fd, at, result);
  return result;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  ssize_t result = REAL(writev)(fd, parts, count);
  if (result > 0) {
    off_t end = lseek(fd, 0, SEEK_CUR);
    if (end >= 0) wrote(fd, end - result, result);
  }
  return result;
}

/* A number may be given to another file once this one is gone: what was remembered of it goes with its last name. */
int unlink(const char *path) {
  struct stat is;
  char shadow[PATH_MAX];
  int there = lstat(path, &is) == 0 && is.st_nlink == 1;
  int result = REAL(unlink)(path);
  if (result != 0 || !shadow_of(path, shadow)) return result;
  REAL(unlink)(shadow);
  if (!there) return result;
  pthread_mutex_lock(&lock);
  struct file *file = known(is.st_dev, is.st_ino);
  if (file != NULL) file->count = 0;
  pthread_mutex_unlock(&lock);
  return result;
}

int link(const char *from, const char *to) {
  char shadow_from[PATH_MAX], shadow_to[PATH_MAX];
  int result = REAL(link)(from, to);
  if (result == 0 && shadow_of(from, shadow_from) && shadow_of(to, shadow_to)) REAL(link)(shadow_from, shadow_to);
  return result;
}

int rename(const char *from, const char *to) {
  char shadow_from[PATH_MAX], shadow_to[PATH_MAX];
  int result = REAL(rename)(from, to);
  if (result == 0 && shadow_of(from, shadow_from) && shadow_of(to, shadow_to)) REAL(rename)(shadow_from, shadow_to);
  return result;
}
