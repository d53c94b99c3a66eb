// Commands that need PyTorch are carried out by the Python package.
#pragma once

#include <string>
#include <vector>

namespace opbridge::cli {

// Lets Python carry out the command `arguments`, whose second word is the model, and ends this process with
// its exit status. Python is the first of these: the one that OPBRIDGE_PYTHON names, the one beside this
// program, the one of the active virtual environment, the first python3 of PATH. Throws
// Error(invalid_argument) if none can be started, or if the code of the model ends it.
[[noreturn]] void run_in_python(const std::vector<std::string>& arguments);

// Whether `model` names a Python function that returns a model, script.py:make_model, and not a file.
bool is_factory(const std::string& model);

// Refuses a Python script without the name of its function, with a message that shows how to name it.
void refuse_script(const std::string& model);

// Refuses Python code where a command reads files alone.
void refuse_python(const std::string& model);

}  // namespace opbridge::cli
