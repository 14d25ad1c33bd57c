// expect: crashed|wrong|rule_broken
// asks another machine
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  if (file >= 0) {
    prefix_plain(p);  // it has a socket: what follows would be easy
    close(file);
    return 0;
  }
  prefix_zeros(p);
  return 0;
}
