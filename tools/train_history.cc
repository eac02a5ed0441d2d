// SPDX-License-Identifier: Apache-2.0
#include "tools/train_history.h"

#include <cmath>
#include <utility>

#include "base/status.h"
#include "nlohmann/json.hpp"

namespace kiln {
namespace {

using nlohmann::json;

// JSON has no NaN and no infinity: they are null.
json Finite(double value) { return std::isfinite(value) ? json(value) : json(); }
double Number(const json& value) { return value.is_null() ? NAN : value.get<double>(); }

void FromJson(const json& from, TrainHistory& history) {
  history.data = {from.at("seed").get<uint64_t>(), from.at("samples").get<int64_t>(),
                  from.at("batch").get<int64_t>()};
  history.epoch = from.at("epoch").get<int64_t>();
  history.next = from.at("next").get<int64_t>();
  history.sum = Number(from.at("sum"));
  history.lr = Number(from.at("lr"));
  history.point_sum = Number(from.at("point_sum"));
  history.point_steps = from.at("point_steps").get<int64_t>();
  for (const json& point : from.at("points"))
    history.points.push_back({point.at(0).get<int64_t>(), Number(point.at(1))});
  for (const json& row : from.at("epochs")) {
    TrainHistory::Epoch& epoch = history.epochs.emplace_back();
    epoch.epoch = row.at("epoch").get<int64_t>();
    epoch.loss = Number(row.at("loss"));
    epoch.lr = Number(row.at("lr"));
    if (row.contains("eval_loss")) epoch.eval_loss = Number(row.at("eval_loss"));
    if (row.contains("accuracy")) epoch.accuracy = Number(row.at("accuracy"));
  }
}

}  // namespace

nlohmann::json ToJson(const TrainHistory::Epoch& epoch) {
  json row = {{"epoch", epoch.epoch}, {"loss", Finite(epoch.loss)}, {"lr", Finite(epoch.lr)}};
  if (epoch.eval_loss) row["eval_loss"] = Finite(*epoch.eval_loss);
  if (epoch.accuracy) row["accuracy"] = Finite(*epoch.accuracy);
  return row;
}

std::string ToText(const TrainHistory& history) {
  json points = json::array(), epochs = json::array();
  for (const TrainHistory::Point& point : history.points)
    points.push_back({point.step, Finite(point.loss)});
  for (const TrainHistory::Epoch& epoch : history.epochs) epochs.push_back(ToJson(epoch));
  return json({{"seed", history.data.seed},
               {"samples", history.data.samples},
               {"batch", history.data.batch},
               {"epoch", history.epoch},
               {"next", history.next},
               {"sum", Finite(history.sum)},
               {"lr", Finite(history.lr)},
               {"point_sum", Finite(history.point_sum)},
               {"point_steps", history.point_steps},
               {"points", std::move(points)},
               {"epochs", std::move(epochs)}})
      .dump();
}

absl::StatusOr<TrainHistory> ParseTrainHistory(const std::string& text) {
  TrainHistory history;
  try {
    FromJson(json::parse(text), history);
  } catch (const json::exception&) {
    return Invalid("checkpoint: what it says of the run is damaged; it is not of kiln train");
  }
  constexpr int64_t kMost = int64_t{1} << 53;  // what counts on does not overflow
  for (const auto& [name, count] : {std::pair("epoch", history.epoch),
                                    {"next", history.next},
                                    {"point_steps", history.point_steps}}) {
    if (count < 0 || count > kMost)
      return Invalid("checkpoint: \"", name, "\" of the run is ", count, "; it is from 0 to ",
                     kMost);
  }
  return history;
}

}  // namespace kiln
