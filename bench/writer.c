/*
 * The bare system calls of one atomic update, in C: what writer.bench.ts compares with.
 * usage: writer DIRECTORY FILES ROUNDS   prints the nanoseconds of each round, one to a line.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void check(int result, const char *what) {
  if (result < 0) {
    perror(what);
    exit(1);
  }
}

static long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  const char *directory = argv[1];
  int files = atoi(argv[2]), rounds = atoi(argv[3]);
  static char data[1024], path[4096], old[4096], target[64], temporary[4096], link[4096];
  snprintf(temporary, sizeof temporary, "%s/..data_tmp", directory);
  snprintf(link, sizeof link, "%s/..data", directory);
  old[0] = 0;
  for (int round = 0; round < rounds; round++) {
    memset(data, 'a' + round % 26, sizeof data);
    long start = now();
    snprintf(target, sizeof target, "..2026_08_20_18_59_46.%d", round);
    int prefix = snprintf(path, sizeof path, "%s/%s", directory, target);
    check(mkdir(path, 0755), "mkdir");
    for (int file = 0; file < files; file++) {
      snprintf(path + prefix, sizeof path - prefix, "/file-%d.conf", file);
      int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      check(descriptor, "open");
      check((int)write(descriptor, data, sizeof data), "write");
      check(fchmod(descriptor, 0644), "fchmod");
      check(close(descriptor), "close");
    }
    check(symlink(target, temporary), "symlink");
    check(rename(temporary, link), "rename");
    if (old[0]) {
      int length = (int)strlen(old);
      for (int file = 0; file < files; file++) {
        snprintf(old + length, sizeof old - length, "/file-%d.conf", file);
        check(unlink(old), "unlink");
      }
      old[length] = 0;
      check(rmdir(old), "rmdir");
    }
    path[prefix] = 0;
    memcpy(old, path, prefix + 1);
    printf("%ld\n", now() - start);
  }
  return 0;
}
