// Package scatter says what a batch takes and costs when each expert of a model is a function of a
// serverless platform: equations 3 to 5 and constraints 6c to 6j of BO/ODS (section III-D), with
// what figures 8 and 9 show where the text has no formula. Planners ask it with the rows that they
// foretell, and the simulator with those that came.
//
//	        ┌─▶ expert 0, g replicas of memory M ─┐
//	gate ───┼─▶ expert 1 ...                      ├──▶ next layer
//	        └─▶ expert e                          ┘
//
// Rows reach a layer's experts, and come back, in one of three modes: Pipelined and Indirect go
// through the object store, in minibatches of β rows or whole; Direct are an invocation's input and
// answer, within the payload limit. Each of an expert's replicas has ⌈d/g⌉ of its d rows, and is
// billed its memory from its start to the end of its last upload.
//
// The print mixes β with the number of minibatches, adds a mode's cost twice or takes it away
// (c1 and c3, c2), and has constraint 6f inverted; docs/bo-ods.md has the forms that are used here
// with their derivation.
package scatter
