// SPDX-License-Identifier: Apache-2.0
// What the cache says of a kernel's code: its entry, and the records of where the code was
// validated since.
#ifndef KILN_COMPILER_KERNEL_ENTRY_H_
#define KILN_COMPILER_KERNEL_ENTRY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/kernel_key.h"
#include "exec/validate/validation.h"
#include "halide_gen/common/protocol.h"
#include "persistent_cache/entry.h"
#include "persistent_cache/key.h"

namespace kiln {

// The entry of an answer with code, before it is validated. `asked`: the size class it was asked
// for.
Entry EntryOf(const KernelIdentity& identity, const std::vector<int64_t>& asked,
              const Preimage& preimage, const CodegenAnswer& answer);

// Whether no launch of a size class runs compiled code: all outputs are empty, and nothing is left
// to do, or an input or what is reduced is, and the VM runs.
bool IsNeverLaunched(const std::string& text, const std::vector<int64_t>& at_most);

void SetMeta(Entry& entry, const std::map<std::string, std::string>& values);

// What is said of an entry whose code this machine cannot run: the example, if whoever validates it
// needs one.
void SetExampleIfNeeded(Entry& entry, const std::vector<int64_t>& example);

// What a validation says, as meta of the entry or of a record. `model`: of the CPU (CpuModelId) or
// the device that it was made on.
std::map<std::string, std::string> MetaOfValidation(const Validation& validation,
                                                    const std::string& model);

// Under which it is recorded that an entry's code was validated on the model, or refused.
Preimage RecordOf(const Entry& entry, const std::string& model);
Entry MakeRecord(const Entry& entry, const Validation& validation, const std::string& model);

}  // namespace kiln

#endif  // KILN_COMPILER_KERNEL_ENTRY_H_
