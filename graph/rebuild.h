// SPDX-License-Identifier: Apache-2.0
// The same program for narrower inputs: the graph is built again, from the model that it was
// imported from if there is one (Graph::maker), so that inference sees the new extents everywhere,
// in the bodies of its nodes too.
//
//   input x : f32 [n, 4]                         input x : f32 [1, 4]
//   y : f32 [n, 8] = ...        with n = 1:      y : f32 [1, 8] = ...
#ifndef KILN_GRAPH_REBUILD_H_
#define KILN_GRAPH_REBUILD_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kiln/dim.h"

namespace kiln {

// A copy of `graph` whose k-th input has shape input_shapes[k]. Where that tells the value of a
// symbol, the symbol is replaced everywhere. Fails as an op's inference does, naming the node.
absl::StatusOr<Graph> WithInputShapes(const Graph& graph, const std::vector<Shape>& input_shapes);

// A copy in which `symbols` are replaced, in inputs, attributes and bodies.
absl::StatusOr<Graph> WithSymbols(const Graph& graph, const std::map<std::string, Dim>& symbols);

// kFailedPrecondition: a premise does not hold with these symbols.
absl::Status CheckPremises(const Graph& graph, const std::map<std::string, Dim>& symbols);

Shape Substituted(const Shape& shape, const std::map<std::string, Dim>& symbols);
// What `shapes`, one for each input, say the symbols of the inputs are.
std::map<std::string, Dim> SymbolsSaidBy(const Graph& graph, const std::vector<Shape>& shapes);

// The name of the symbol, if `dim` is one that stands alone; else empty.
std::string SymbolOf(const Dim& dim);

// Calls f with every symbol that a run learns from a value: extents, and known elements, that are
// one symbol.
void ForEachLearned(const Value& value, const std::function<void(const std::string&)>& f);
// The symbols that the inputs tell.
std::set<std::string> ToldByInputs(const Graph& graph);
// Whether a guard is about these symbols, and no others.
bool IsOnlyAbout(const Guard& guard, const std::set<std::string>& symbols);

// Symbols that the node needs or, if it is dynamic, gives values: in attributes, bodies, and the
// shapes and contents of its outputs.
std::set<std::string> SymbolsOf(const Graph& graph, const Node& node);
// Symbols in a graph that neither its inputs nor its dynamic nodes give values.
std::set<std::string> FreeSymbols(const Graph& graph);

}  // namespace kiln

#endif  // KILN_GRAPH_REBUILD_H_
