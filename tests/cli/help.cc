// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/help.h"

#include <regex>

#include "absl/strings/str_split.h"
#include "tests/cli/process.h"

namespace kiln {

std::set<std::string> FlagsOf(const std::string& verb) {
  std::vector<std::string> words = absl::StrSplit(verb, ' ');
  words.emplace_back("--help");
  const std::string help = Kiln(words).out;
  std::set<std::string> flags;
  const std::regex form("\n  (-[A-Za-z],)?(-{1,2}[A-Za-z-]+)");
  for (std::sregex_iterator i(help.begin(), help.end(), form), end; i != end; ++i)
    flags.insert((*i)[2]);
  flags.erase("--help");
  return flags;
}

std::vector<std::string> Verbs() {
  std::vector<std::string> verbs;
  const auto subcommands = [&](const std::vector<std::string>& words, const std::string& before) {
    const std::string help = Kiln(words).out;
    const size_t at = help.find("\nSubcommands:\n");
    const std::regex form("\n  ([a-z-]+)");
    const std::string rest = at == std::string::npos ? "" : help.substr(at + 13);
    for (std::sregex_iterator i(rest.begin(), rest.end(), form), end; i != end; ++i)
      verbs.push_back(before + (*i)[1].str());
  };
  subcommands({"--help"}, "");
  std::erase(verbs, "cache");
  subcommands({"cache", "--help"}, "cache ");
  return verbs;
}

}  // namespace kiln
