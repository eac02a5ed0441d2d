// SPDX-License-Identifier: Apache-2.0
// What a package has of a model, or of a part of its script: variants, of which the first that fits
// is handed out. Its constants are checked by who is about to read them (packed_constants.h), those
// of a script here.
#ifndef KILN_EXEC_PACKAGE_PACKAGED_MODEL_H_
#define KILN_EXEC_PACKAGE_PACKAGED_MODEL_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/package/package_file.h"
#include "exec/package/packaged_weights.h"
#include "exec/provider.h"

namespace kiln {

class PackagedModel : public VariantProvider {
 public:
  PackagedModel(std::shared_ptr<PackageFile> file, std::shared_ptr<PackagedWeights> weights,
                std::vector<PortInfo> inputs, std::vector<PortInfo> outputs)
      : file_(std::move(file)),
        weights_(std::move(weights)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {}

  // Before the first Get.
  void Add(Variant variant);

  const std::vector<PortInfo>& inputs() const override { return inputs_; }
  const std::vector<PortInfo>& outputs() const override { return outputs_; }
  // kNotFound: there is none for these inputs, with the guard or the extent; kDataLoss: a
  // constant of a script is damaged.
  absl::StatusOr<std::shared_ptr<const Variant>> Get(const std::vector<InputInfo>& inputs) override;
  PackedConstants* packed_constants() override { return weights_.get(); }

 private:
  absl::Status NoVariant(const std::vector<InputInfo>& inputs, const Guard* broken) const;

  const std::shared_ptr<PackageFile> file_;
  const std::shared_ptr<PackagedWeights> weights_;
  const std::vector<PortInfo> inputs_, outputs_;
  std::vector<std::shared_ptr<const Variant>> variants_;  // immutable after the last Add
};

}  // namespace kiln

#endif  // KILN_EXEC_PACKAGE_PACKAGED_MODEL_H_
