// Runs another program in place of this one, and learns how it ended.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace opbridge::cli {

// The program, which execvp finds, gets the signals that are sent to this process, and does not outlive it.
// Returns its wait status (see wait(2)), or nothing if it cannot be started.
std::optional<int> run_stand_in(std::vector<std::string> arguments);

// Ends this process by the signal that ended the stand-in, for the caller to see it too.
void end_by(int signal);

}  // namespace opbridge::cli
