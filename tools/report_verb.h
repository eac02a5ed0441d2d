// SPDX-License-Identifier: Apache-2.0
// kiln report MODEL -o r.html: what becomes of a model, and how it runs, as a page (html_report.h).
#ifndef KILN_TOOLS_REPORT_VERB_H_
#define KILN_TOOLS_REPORT_VERB_H_

namespace kiln {

class Flags;  // tools/flags.h

// The verb.
void AddReport(Flags& command);

}  // namespace kiln

#endif  // KILN_TOOLS_REPORT_VERB_H_
