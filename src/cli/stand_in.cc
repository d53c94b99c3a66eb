#include "cli/stand_in.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "opbridge/error.h"

namespace opbridge::cli {
namespace {

constexpr int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

volatile pid_t stand_in = 0;

// The kernel sends the signals of a terminal, such as those of Ctrl-C, to the stand-in too.
void pass_on(int signal, siginfo_t* info, void* /*context*/) {
  const int errno_before = errno;
  if (info->si_code != SI_KERNEL) ::kill(stand_in, signal);
  errno = errno_before;
}

// Signals that this process ignores are ignored by the stand-in too, as nohup wants it.
void pass_on_signals() {
  for (const int signal : passed_on) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

[[noreturn]] void become(char* const* arguments, pid_t parent, const sigset_t& signals, int failure) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it has ended already
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::execvp(arguments[0], arguments);
  if (::write(failure, "x", 1) != 1) ::abort();
  ::_exit(127);
}

[[noreturn]] void fail() {
  throw Error(ErrorCode::io, "cannot start a process: " + std::system_category().message(errno));
}

}  // namespace

std::optional<int> run_stand_in(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  int failure[2];  // closed when the program starts; before that, a byte says that it cannot
  if (::pipe2(failure, O_CLOEXEC) != 0) fail();

  sigset_t blocked, before;
  sigemptyset(&blocked);
  for (const int signal : passed_on) sigaddset(&blocked, signal);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);  // until there is a process that they can be passed on to
  const pid_t parent = ::getpid();
  stand_in = ::fork();
  if (stand_in < 0) fail();
  if (stand_in == 0) become(pointers.data(), parent, before, failure[1]);
  pass_on_signals();
  ::sigprocmask(SIG_SETMASK, &before, nullptr);

  ::close(failure[1]);
  char byte = 0;
  ssize_t bytes = 0;
  while ((bytes = ::read(failure[0], &byte, 1)) < 0 && errno == EINTR) {
  }
  ::close(failure[0]);
  int status = 0;
  while (::waitpid(stand_in, &status, 0) < 0) {
    if (errno != EINTR) fail();
  }
  if (bytes == 1) return std::nullopt;
  return status;
}

void end_by(int signal) {
  ::prctl(PR_SET_DUMPABLE, 0);  // the core to look at is that of the stand-in
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace opbridge::cli
