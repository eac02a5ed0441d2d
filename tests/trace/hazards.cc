// SPDX-License-Identifier: Apache-2.0
#include "tests/trace/hazards.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln {
namespace {

using namespace hazards;  // NOLINT: the names of changes are the table's words
using E = TraceError;

constexpr char kNumbers[] = "a number of the closure or a global";
constexpr char kPowers[] = "an exponent of `pow` from or to 1, 2, 3 or 4";
constexpr char kOperations[] =
    "another operator, other attributes, other operands, another order of operations";
constexpr char kCounts[] = "more or fewer operations (loops)";
constexpr char kReadRow[] = "more or fewer reads of what is computed, or of other values";
constexpr char kResults[] = "other or more results";
constexpr char kHeld[] = "a value that is held longer";
constexpr char kReplaced[] = "another captured array, and somebody else holds the old one";
constexpr char kDropped[] = "another captured array, and nobody holds the old one";
constexpr char kMerged[] = "captured arrays that become one, or one that becomes two";
constexpr char kCapturedType[] = "a captured array of another type or other extents";
constexpr char kWritten[] = "written into a captured array or an argument";
constexpr char kAliases[] =
    "one array or parts of one buffer as several arguments or captured arrays, other strides";
constexpr char kArgumentType[] = "an argument of another type";
constexpr char kExtents[] =
    "arguments of other extents: one less, from or to 1, from or to 0; attributes are made of "
    "numbers, or of `ArrayDim`";
constexpr char kDevices[] = "an argument or captured array on another device";
constexpr char kBranches[] = "control flow by a value that was read";
constexpr char kNewBranches[] = "control flow by an element of an argument, where there was none";
constexpr char kMade[] = "arrays made in the function";
constexpr char kThreads[] = "another thread calls it, computes an argument, or lets an array go";
constexpr char kTwoThreads[] = "another thread uses an array without a value, two calls at once";
constexpr char kNests[] = "a traced function called in it";
constexpr char kNestsExcluded[] = "a traced function called in a region left out";
constexpr char kThrows[] = "an exception of the function, which passes through";
constexpr char kForgets[] = "`forget()` in a call";
constexpr char kRegions[] = "other or more operations in a region left out";
constexpr char kRegionEnds[] = "a region left out that begins or ends elsewhere, or is not there";

Outcome Only(TraceError error) { return {{error}}; }
const Outcome kRight = {}, kUnseen = {{}, false}, kUnfrozen = {{E::kNotFrozen}};
const Outcome kConst = {{E::kConstant}};

std::vector<Hazard> OperationHazards() {
  // Two captured arrays that change places differ in extents, mostly.
  const Outcome swapped = {{E::kWiring, E::kExpectedExternal, E::kExpectedInternal, E::kShape}};
  const Outcome outside = {{E::kExpectedExternal, E::kExpectedInternal}};
  return {
      {kNumbers, "ANumber", nullptr, ChangeNumber, kRight, kConst, kUnseen},
      {kPowers, "FromASmallPower", Power<20>, Power<25>, kConst, kConst, kUnseen},
      {kPowers, "ToASmallPower", Power<25>, Power<30>, kConst, kConst, kUnseen},
      {kPowers, "AnotherSmallPower", Power<20>, Power<30>, kConst, kConst, kUnseen},
      {kOperations, "AnotherOperator", nullptr, ChangeOperator, Only(E::kOperation),
       Only(E::kOperation), kUnseen},
      {kOperations, "OtherAttributes", nullptr, ChangeAttributes, Only(E::kAttributes),
       Only(E::kAttributes), kUnseen},
      {kOperations, "SwappedOperands", nullptr, SwapOperands, swapped, swapped, kUnseen},
      {kOperations, "ANumberInPlaceOfAnArray", nullptr, ArrayBecomesNumber, outside, outside,
       kUnseen},
      {kOperations, "AnArrayInPlaceOfANumber", nullptr, NumberBecomesArray,
       Only(E::kExpectedExternal), Only(E::kExpectedExternal), kUnseen},
      {kOperations, "AnotherOrder", nullptr, SwapSteps, Only(E::kOperation), Only(E::kOperation),
       kUnseen},
      {kCounts, "MoreOperations", nullptr, MoreOperations, Only(E::kTooMany), Only(E::kTooMany),
       kUnseen},
      {kCounts, "FewerOperations", nullptr, FewerOperations, Only(E::kTooFew), Only(E::kTooFew),
       kUnseen},
  };
}

std::vector<Hazard> ReadHazards() {
  const Outcome read = {{E::kRead}};
  const Outcome results = {{E::kResults}};
  const Outcome branches = {{E::kOperation, E::kNotFrozen}};
  return {
      {kReadRow, "MoreReads", nullptr, MoreReads, read, read, kUnseen},
      {kReadRow, "FewerReads", OneRead, FewerReads, read, kUnfrozen, kUnfrozen, kReads},
      {kReadRow, "AnotherRead", OneRead, AnotherRead, read, kUnfrozen, kUnfrozen, kReads},
      {kResults, "OtherResults", nullptr, OtherResults, results, results, kUnseen},
      {kResults, "MoreResults", nullptr, MoreResults, results, results, kUnseen},
      {kHeld, "HeldInTheCall", nullptr, HoldsMore, kRight, kRight, kUnseen},
      {kHeld, "HeldAfterTheCall", nullptr, Does<Deed::kKeep>, Only(E::kUnreadable),
       Only(E::kUnreadable), kUnseen},
      {kNewBranches, "ABranchMore", nullptr, BranchesOnArgument, Only(E::kOperation), branches,
       kUnseen},
      {kBranches, "ABranch", Branches, Nothing, Only(E::kOperation), kUnfrozen, kUnfrozen,
       kReads | kLasts},
  };
}

std::vector<Hazard> CaptureHazards() {
  const Outcome merged = {{E::kExpectedExternal}}, split = {{E::kExpectedInternal}};
  const Outcome merged_const = {{E::kExpectedExternal, E::kConstant}};
  const Outcome extents = {{E::kAttributes, E::kShape}};  // as slices of it are
  const Outcome split_const = {{E::kExpectedInternal, E::kConstant}};
  return {
      {kReplaced, "AnotherCapturedArray", UsesCaptured, ReplaceCaptured, kRight, kConst, kUnseen},
      {kDropped, "ADroppedCapturedArray", UsesCaptured, ReplaceCaptured, kRight, kConst, kConst,
       kDrops},
      {kMerged, "CapturedArraysBecomeOne", UsesBoth, CapturedAreOne, merged, merged_const, kUnseen},
      {kMerged, "OneCapturedArrayBecomesTwo", CapturedAreOne, CapturedAreTwo, split, split_const,
       kUnseen},
      {kCapturedType, "ACapturedArrayOfAnotherType", UsesCaptured, CapturedIsWide, Only(E::kDtype),
       Only(E::kDtype), kUnseen},
      {kCapturedType, "ACapturedArrayOfOtherExtents", UsesCaptured, CapturedHasOneMore, extents,
       extents, kUnseen},
      {kWritten, "WrittenIntoACapturedArray", nullptr, Write<2>, kRight, kRight, kRight},
      {kWritten, "WrittenIntoAnArgument", nullptr, Write<0>, kRight, kRight, kRight},
      {kAliases, "OneArgumentTwice", nullptr, OneArgumentTwice, kRight, kRight, kRight},
      {kAliases, "AnArgumentThatIsCaptured", nullptr, ArgumentIsCaptured, kRight, kRight, kRight},
      {kAliases, "TheMemoryOfACapturedArray", nullptr, ArgumentHasMemoryOfCaptured, kRight, kRight,
       kRight},
      {kAliases, "ArgumentsThatOverlap", nullptr, ArgumentsOverlap, kRight, kRight, kRight},
      {kAliases, "OtherStrides", nullptr, OtherStrides, kRight, kRight, kRight},
      {kMade, "ArraysMadeInTheFunction", MakesArrays, Nothing, kRight, kConst, kConst, kLasts},
  };
}

std::vector<Hazard> ArgumentHazards() {
  const Outcome dtype = {{E::kDtype}}, device = {{E::kDevice}};
  std::vector<Hazard> all = {
      {kArgumentType, "AnArgumentOfAnotherType", nullptr, WideArgument, dtype, dtype, dtype},
      {kDevices, "AnArgumentOnAnotherDevice", nullptr, ArgumentOnGpu, device, device, device},
      {kDevices, "ACapturedArrayOnAnotherDevice", UsesCaptured, CapturedOnGpu, device, device,
       kUnseen},
  };
  const std::pair<const char*, Shapes (*)(Random&)> kinds[] = {
      {"OtherExtents", Others}, {"OneLess", OneLess},   {"FromOne", FromOne},
      {"ToOne", ToOne},         {"FromZero", FromZero}, {"ToZero", ToZero}};
  for (const auto& [name, extents] : kinds)
    all.push_back({kExtents, name, nullptr, OtherExtents, kRight, kRight, kRight, 0, extents});
  return all;
}

std::vector<Hazard> DeedHazards() {
  // What is in the region is not there for the record: the next operation is another one.
  const Outcome other = {{E::kOperation, E::kWiring, E::kExpectedInternal, E::kExpectedExternal,
                          E::kShape, E::kTooFew}};
  const Outcome thread = {{E::kThread}}, nested = {{E::kNested}}, exclusion = {{E::kExclusion}};
  return {
      {kThreads, "AnotherThreadCalls", nullptr, AnotherThreadCalls, kRight, kRight, kRight},
      {kThreads, "AnArgumentWithoutAValue", nullptr, ComesFrom<Source::kPending>, kRight, kRight,
       kRight},
      {kThreads, "AnArgumentOfAnotherThread", nullptr, ComesFrom<Source::kComputedElsewhere>,
       kRight, kRight, kRight},
      {kThreads, "AnotherThreadUsesAValue", Does<Deed::kUseReadElsewhere>, Nothing, kRight, kRight,
       kRight},
      {kThreads, "AnotherThreadLetsAnArrayGo", Does<Deed::kLetGoElsewhere>, Nothing, kRight, kRight,
       kRight},
      {kTwoThreads, "AnArgumentPendingElsewhere", nullptr, ComesFrom<Source::kPendingElsewhere>,
       thread, thread, thread},
      {kTwoThreads, "AnotherThreadUsesAnArray", nullptr, Does<Deed::kUseElsewhere>, thread, thread,
       kUnseen},
      {kTwoThreads, "ACallInTheCall", nullptr, Does<Deed::kCallItself>, thread, thread, kUnseen},
      {kNests, "ATraceInATrace", nullptr, Does<Deed::kNest>, nested, nested, kUnseen},
      {kNestsExcluded, "ATraceInARegion", Does<Deed::kNestExcluded>, Nothing, kRight, kUnfrozen,
       kUnfrozen},
      {kThrows, "AnException", nullptr, Does<Deed::kThrow>, kRight, kRight, kUnseen},
      {kForgets, "Forgetting", nullptr, Does<Deed::kForget>, kRight, kRight, kUnseen},
      // What it makes there may have another shape, for what follows or as a result.
      {kRegions, "AnotherOperatorInARegion", Does<Deed::kExclude>, RegionHasAnotherOperator,
       Outcome{{E::kShape, E::kResults}}, kUnfrozen, kUnfrozen},
      {kRegions, "MoreOperationsInARegion", Does<Deed::kExclude>, RegionHasMore, kRight, kUnfrozen,
       kUnfrozen},
      {kRegionEnds, "ARegionThatBeginsEarlier", Does<Deed::kExclude>, RegionBeginsEarlier,
       exclusion, kUnfrozen, kUnfrozen},
      {kRegionEnds, "ARegionThatEndsLater", Does<Deed::kExclude>, RegionEndsLater, other, kUnfrozen,
       kUnfrozen},
      {kRegionEnds, "ARegionMore", nullptr, Does<Deed::kExclude>, exclusion, exclusion, kUnseen},
      {kRegionEnds, "ARegionLess", Does<Deed::kExclude>, DoesNothing, exclusion, kUnfrozen,
       kUnfrozen},
  };
}

// Of all hazards of a row: what is not seen, or the classes of errors, else "right".
std::string CellOf(const std::vector<const Hazard*>& hazards, Way way) {
  std::set<TraceError> errors;
  bool seen = false;
  for (const Hazard* const hazard : hazards) {
    errors.insert(hazard->Of(way).errors.begin(), hazard->Of(way).errors.end());
    seen = seen || hazard->Of(way).seen;
  }
  std::vector<std::string> parts;
  for (const TraceError error : errors) parts.emplace_back(Name(error));
  if (parts.empty()) return seen ? "right" : "not seen";
  const bool unseen = std::any_of(hazards.begin(), hazards.end(),
                                  [way](const Hazard* h) { return !h->Of(way).seen; });
  if (unseen) parts.emplace_back("not seen");
  return absl::StrJoin(parts, ", ");
}

}  // namespace

const std::vector<Hazard>& Hazards() {
  static const std::vector<Hazard> kHazards = [] {
    std::vector<Hazard> all;
    for (const auto& some :
         {OperationHazards(), ReadHazards(), CaptureHazards(), ArgumentHazards(), DeedHazards()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
  return kHazards;
}

std::string HazardTable() {
  std::vector<const char*> order;
  std::map<std::string, std::vector<const Hazard*>> rows;
  for (const Hazard& hazard : Hazards()) {
    std::vector<const Hazard*>& row = rows[hazard.row];
    if (row.empty()) order.push_back(hazard.row);
    row.push_back(&hazard);
  }
  std::string table =
      "| change | traced | frozen, in the second call | frozen, later |\n| --- | --- | --- | --- "
      "|\n";
  for (const char* const row : order) {
    absl::StrAppend(&table, "| ", row);
    for (const Way way : {Way::kTraced, Way::kSecond, Way::kLater})
      absl::StrAppend(&table, " | ", CellOf(rows[row], way));
    table += " |\n";
  }
  return table;
}

}  // namespace kiln
